package corpus

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
)

// maxParts and maxPartDepth bound the parts of one message.
const (
	maxParts     = 1000
	maxPartDepth = 20
)

// parseMail reads a message (.eml; RFC 5322 and MIME): its subject is the title, its plain text the text, or its HTML
// if it has no plain text. Names of attachments are listed, their contents are not read. Sender, recipients and date go
// to Meta.
func parseMail(d *Document, raw string, p *pulse) error {
	b := &builder{pulse: p, w: textWriter{isSource: true}}
	if err := readMail(d, b, raw); err != nil {
		return err
	}
	b.finish(d, nil)
	return nil
}

func readMail(d *Document, b *builder, raw string) error {
	m, err := mail.ReadMessage(beating{strings.NewReader(raw), b.pulse})
	if err != nil {
		return fmt.Errorf("%w: no message: %s", ErrFormat, cutRunes(err.Error(), maxHeading)) // err quotes the line
	}
	words := mime.WordDecoder{CharsetReader: charset.NewReaderLabel}
	header := func(name string) string {
		text, err := words.DecodeHeader(m.Header.Get(name))
		if err != nil {
			text = m.Header.Get(name)
		}
		return strings.Join(strings.Fields(clean(text)), " ")
	}
	d.Title = header("Subject")
	d.Meta = Meta{}
	if id := strings.Trim(header("Message-Id"), "<>"); id != "" && len(id) <= maxHeading {
		d.Meta["message-id"] = id
	}
	for _, name := range []string{"From", "To", "Date"} {
		if text := header(name); text != "" {
			d.Meta[strings.ToLower(name)] = text
		}
	}
	d.property(authorKey, d.Meta.Text("from"))
	d.property(createdKey, commentOff(d.Meta.Text("date")))
	if d.Title != "" {
		b.heading(1, d.Title, "", 0, 0)
	}
	r := mailReader{b: b, words: words}
	body := m.Body
	text, err := r.part(m.Header.Get("Content-Type"), m.Header.Get("Content-Transfer-Encoding"), body, 0)
	if err != nil {
		return err
	}
	text.write(d, b)
	if len(r.attached) > 0 {
		b.collapsed("Attachments: "+strings.Join(r.attached, ", "), 0)
		b.endBlock("\n\n")
	}
	return nil
}

// commentOff returns a date without the name of its zone in parentheses.
func commentOff(date string) string {
	date, _, _ = strings.Cut(date, " (")
	return date
}

// clean returns a text as valid UTF-8 without NUL.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "")
}

// mailText is the text of a part, in one of two forms.
type mailText struct{ plain, html string }

// mailTexts joins the texts of parts, which may be many and long.
type mailTexts struct{ plain, html strings.Builder }

func (t *mailTexts) text() mailText { return mailText{t.plain.String(), t.html.String()} }

func (t mailText) write(d *Document, b *builder) {
	if strings.TrimSpace(t.plain) != "" {
		for block := range strings.SplitSeq(strings.ReplaceAll(t.plain, "\r\n", "\n"), "\n\n") {
			linesOf(b, block)
			b.endBlock("\n\n")
		}
		return
	}
	in := decode(t.html, b.pulse)
	d.Repaired += in.repaired
	readHTML(b, in.text, 0, false)
	b.endBlock("\n\n")
}

// mailReader reads the parts of a message.
type mailReader struct {
	b        *builder
	words    mime.WordDecoder
	parts    int
	attached []string
}

func (r *mailReader) part(contentType, encoding string, body io.Reader, depth int) (t mailText, err error) {
	if r.parts++; r.parts > maxParts || depth > maxPartDepth {
		return t, fmt.Errorf("%w: more than %d parts, or %d in each other", ErrFormat, maxParts, maxPartDepth)
	}
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		kind = "text/plain" // the default of RFC 2045 for a type that is not understood
	}
	switch strings.ToLower(encoding) {
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, body)
	case "quoted-printable":
		body = quotedprintable.NewReader(body)
	}
	if strings.HasPrefix(kind, "multipart/") {
		return r.multipart(kind, multipart.NewReader(body, params["boundary"]), depth)
	}
	if kind != "text/plain" && kind != "text/html" {
		return t, nil
	}
	if decoded, err := charset.NewReaderLabel(params["charset"], body); err == nil {
		body = decoded
	}
	var text strings.Builder
	if _, err = io.Copy(&text, body); err != nil && text.Len() == 0 { // the text before an error is kept
		return t, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	said := text.String()
	if params["charset"] == "" && !utf8.ValidString(said) {
		if name := guessCharset(said); name != "" {
			if decoded, ok := decodedAs(name, said); ok {
				said = decoded
			}
		}
	}
	plain := clean(said)
	if kind == "text/html" {
		return mailText{html: plain}, nil
	}
	if strings.EqualFold(params["format"], "flowed") {
		plain = unflowed(plain, strings.EqualFold(params["delsp"], "yes"))
	}
	return mailText{plain: plain}, nil
}

// unflowed joins the lines of a text that were split to keep them short: a line that ends with a space is joined with
// the next one of the same quoting depth (RFC 3676). With delete the space is removed.
func unflowed(text string, delete bool) string {
	var b strings.Builder
	flows, depth := false, 0 // of the line before
	for line := range strings.Lines(strings.ReplaceAll(text, "\r\n", "\n")) {
		line, ends := strings.CutSuffix(line, "\n")
		content := strings.TrimLeft(line, ">")
		quoted := len(line) - len(content)
		content = strings.TrimPrefix(content, " ") // space-stuffed
		signature := content == "-- "
		if flows && (quoted != depth || signature) {
			b.WriteByte('\n')
			flows = false
		}
		if !flows {
			b.WriteString(strings.Repeat(">", quoted))
			if quoted > 0 {
				b.WriteByte(' ')
			}
		}
		flows, depth = strings.HasSuffix(content, " ") && !signature && ends, quoted
		if flows && delete {
			content = content[:len(content)-1]
		}
		b.WriteString(content)
		if ends && !flows {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// multipart joins the texts of the parts; of alternatives it takes the plain one.
func (r *mailReader) multipart(kind string, parts *multipart.Reader, depth int) (mailText, error) {
	var t mailTexts
	for {
		p, err := parts.NextRawPart()
		if err != nil { // the end, or a truncated message
			return t.text(), nil //nolint:nilerr // what came before is kept
		}
		name := p.FileName()
		if decoded, err := r.words.DecodeHeader(name); err == nil {
			name = decoded
		}
		disposition, _, _ := mime.ParseMediaType(p.Header.Get("Content-Disposition"))
		if kind, _, _ := mime.ParseMediaType(p.Header.Get("Content-Type")); kind == "message/rfc822" {
			t.plain.WriteString(r.forwarded(p, depth+1))
			continue
		}
		if name != "" || disposition == "attachment" {
			if name != "" {
				r.attached = append(r.attached, clean(name))
			}
			continue
		}
		one, err := r.part(p.Header.Get("Content-Type"), p.Header.Get("Content-Transfer-Encoding"), p, depth+1)
		if err != nil {
			return mailText{}, err
		}
		if kind == "multipart/alternative" {
			if one.plain != "" {
				t.plain.Reset()
			}
			if one.html != "" {
				t.html.Reset()
			}
		}
		t.plain.WriteString(one.plain)
		if kind == "multipart/alternative" || one.plain == "" && one.html != "" && t.plain.Len() == 0 {
			t.html.WriteString(one.html)
		} else {
			t.plain.WriteString("\n\n")
		}
	}
}

// forwarded returns the text of a message in a message, below its subject; "" if it cannot be read.
func (r *mailReader) forwarded(p io.Reader, depth int) string {
	m, err := mail.ReadMessage(p)
	if err != nil {
		return ""
	}
	text, err := r.part(m.Header.Get("Content-Type"), m.Header.Get("Content-Transfer-Encoding"), m.Body, depth)
	if err != nil {
		return ""
	}
	subject, err := r.words.DecodeHeader(m.Header.Get("Subject"))
	if err != nil {
		subject = m.Header.Get("Subject")
	}
	plain := text.plain
	if strings.TrimSpace(plain) == "" && text.html != "" {
		var d Document
		parseHTML(&d, decoded{text: text.html}, false, r.b.pulse)
		plain = d.Text
	}
	return "\n\n" + clean(subject) + "\n\n" + plain
}

// mailbox reads the messages of an mbox file (RFC 4155), a document each: a message begins with a line "From …" with a
// date, at the beginning or after an empty line. A document's id is the file's, then the Message-ID.
func (l *loader) mailbox(file found) error {
	path, id := file.path, file.name
	raw, _, _, err := l.readText(file, format{})
	if err != nil {
		return l.unread(file, err)
	}
	n := 0
	for at, line := range messages(raw) {
		if err := l.cancelled(); err != nil {
			return err
		}
		n++
		from := place{path: path, line: line}
		sum := sha256.Sum256([]byte(at))
		d := &Document{Digest: "sha256:" + hex.EncodeToString(sum[:])}
		limit := l.limited(int64(len(at)))
		err := limit.parsing(len(at), func() error { return parseMail(d, unquoted(at), limit.pulse) })
		limit.end()
		if err != nil {
			if stop := l.cancelled(); stop != nil {
				return stop
			}
			if err := l.skip(from.String(), err, true); err != nil {
				return err
			}
			continue
		}
		d.ID = fmt.Sprintf("%s#%d", id, n)
		if name := d.Meta.Text("message-id"); name != "" {
			d.ID = id + "#" + name
		}
		d.shorten(l.o.MaxTextBytes)
		if err := l.emit(d, from); err != nil {
			return err
		}
	}
	if n == 0 {
		return l.skip(path, fmt.Errorf("%w: no message begins with a line \"From \"", ErrFormat), true)
	}
	return nil
}

// messages yields each message of a mailbox with the line that it begins on.
func messages(raw string) iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		begin, number, at, n, empty, dated := -1, 0, 0, 0, true, false
		for line := range strings.Lines(raw) {
			n++
			next := at + len(line)
			switch {
			case !empty || !strings.HasPrefix(line, "From "):
			case begin < 0:
				begin, number, dated = next, n, isDated(line)
			case dated && isDated(line) || !dated && isHeaderLine(raw[next:]):
				if !yield(raw[begin:at], number) {
					return
				}
				begin, number = next, n
			}
			empty = strings.TrimRight(line, "\r\n") == ""
			at = next
		}
		if begin >= 0 {
			yield(raw[begin:], number)
		}
	}
}

// isDated reports whether a line has a day, a month and a time in this order, as the separator of a mailbox has: other
// lines that begin with "From " are text.
func isDated(line string) bool {
	fields := strings.Fields(line[:min(len(line), maxSeparator)])
	for i := 2; i+3 < len(fields); i++ {
		day, month, date, hour := fields[i], fields[i+1], fields[i+2], fields[i+3]
		if oneOf("MonTueWedThuFriSatSun", strings.TrimRight(day, ",")) && len(date) <= 2 && date[0] >= '0' &&
			date[0] <= '9' && oneOf("JanFebMarAprMayJunJulAugSepOctNovDec", month) && strings.Contains(hour, ":") {
			return true
		}
	}
	return false
}

// maxSeparator bounds the line that separates two messages, in bytes.
const maxSeparator = 1000

// oneOf reports whether a word is in a list of words of three letters.
func oneOf(list, word string) bool { return len(word) == 3 && strings.Index(list, word)%3 == 0 }

// isHeaderLine reports whether a text begins with a header line of a message.
func isHeaderLine(text string) bool {
	name, _, ok := strings.Cut(text[:min(len(text), maxSeparator)], ":")
	return ok && name != "" && !strings.ContainsAny(name, " \t\r\n")
}

// unquoted removes the ">" with which the mailbox escapes lines that begin with "From ".
func unquoted(message string) string {
	return strings.ReplaceAll(message, "\n>From ", "\nFrom ")
}
