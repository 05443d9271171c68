// Package mail reads messages.
package mail

import (
	"encoding/base64"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"strings"
	"unicode/utf8"

	encodings "golang.org/x/net/html/charset"

	"github.com/sluice-rag/sluice/rag/corpus/build"
	"github.com/sluice-rag/sluice/rag/corpus/charset"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
	"github.com/sluice-rag/sluice/rag/corpus/html"
)

// maxParts and maxPartDepth bound the parts of one message.
const (
	maxParts     = 1000
	maxPartDepth = 20
)

// Parse reads a message (.eml; RFC 5322 and MIME): its subject is the title, its plain text the text, or its HTML
// if it has no plain text. Names of attachments are listed, their contents are not read. Sender, recipients and date go
// to Meta.
func Parse(d *doc.Document, raw string, p *doc.Pulse) error {
	b := &build.Builder{Pulse: p, W: doc.Writer{IsSource: true}}
	if err := Read(d, b, raw); err != nil {
		return err
	}
	b.Finish(d, nil)
	return nil
}

// Read writes a message to a builder.
func Read(d *doc.Document, b *build.Builder, raw string) error {
	m, err := mail.ReadMessage(b.Pulse.Reader(strings.NewReader(raw)))
	if err != nil {
		why := doc.CutRunes(err.Error(), doc.MaxHeading) // it quotes the line
		return fmt.Errorf("%w: no message: %s", doc.ErrFormat, why)
	}
	r := mailReader{b: b, words: mime.WordDecoder{CharsetReader: encodings.NewReaderLabel}}
	header := func(name string) string { return strings.Join(strings.Fields(r.header(m, name)), " ") }
	d.Title = header("Subject")
	d.Meta = doc.Meta{}
	if id := strings.Trim(header("Message-Id"), "<>"); id != "" && len(id) <= doc.MaxHeading {
		d.Meta["message-id"] = id
	}
	for _, name := range []string{"From", "To", "Date"} {
		if text := header(name); text != "" {
			d.Meta[strings.ToLower(name)] = text
		}
	}
	d.Property(doc.AuthorKey, d.Meta.Text("from"))
	date, _, _ := strings.Cut(d.Meta.Text("date"), " (") // the name of its zone
	d.Property(doc.CreatedKey, date)
	if d.Title != "" {
		b.Heading(1, d.Title, "", 0, 0)
	}
	text, err := r.part(m.Header.Get("Content-Type"), m.Header.Get("Content-Transfer-Encoding"), m.Body, 0)
	if err != nil {
		return err
	}
	text.write(d, b)
	if len(r.attached) > 0 {
		b.Collapsed("Attachments: "+strings.Join(r.attached, ", "), 0)
		b.EndBlock("\n\n")
	}
	return nil
}

// mailText is the text of a part, in one of two forms.
type mailText struct{ plain, html string }

// mailTexts joins the texts of parts, which may be many and long.
type mailTexts struct{ plain, html strings.Builder }

func (t *mailTexts) text() mailText { return mailText{t.plain.String(), t.html.String()} }

func (t mailText) write(d *doc.Document, b *build.Builder) {
	if strings.TrimSpace(t.plain) != "" {
		for block := range strings.SplitSeq(strings.ReplaceAll(t.plain, "\r\n", "\n"), "\n\n") {
			build.Lines(b, block)
			b.EndBlock("\n\n")
		}
		return
	}
	in := charset.DecodeUTF8(t.html, b.Pulse)
	d.Repaired += in.Repaired
	html.Read(b, in.Text, 0, false)
	b.EndBlock("\n\n")
}

// mailReader reads the parts of a message.
type mailReader struct {
	b        *build.Builder
	words    mime.WordDecoder
	parts    int
	attached []string
}

// header returns a field of a message's header, decoded.
func (r *mailReader) header(m *mail.Message, name string) string {
	text, err := r.words.DecodeHeader(m.Header.Get(name))
	if err != nil {
		text = m.Header.Get(name)
	}
	return doc.Clean(text)
}

func (r *mailReader) part(contentType, encoding string, body io.Reader, depth int) (t mailText, err error) {
	if r.parts++; r.parts > maxParts || depth > maxPartDepth {
		return t, fmt.Errorf("%w: more than %d parts, or %d in each other", doc.ErrFormat, maxParts, maxPartDepth)
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
	if decoded, err := encodings.NewReaderLabel(params["charset"], body); err == nil {
		body = decoded
	}
	var text strings.Builder
	if _, err = io.Copy(&text, body); err != nil && text.Len() == 0 { // the text before an error is kept
		return t, fmt.Errorf("%w: %w", doc.ErrFormat, err)
	}
	said := text.String()
	if params["charset"] == "" && !utf8.ValidString(said) {
		if name := charset.Guess(said); name != "" {
			if decoded, ok := charset.DecodedAs(name, said); ok {
				said = decoded
			}
		}
	}
	plain := doc.Clean(said)
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
				r.attached = append(r.attached, doc.Clean(name))
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
	plain := text.plain
	if strings.TrimSpace(plain) == "" && text.html != "" {
		var d doc.Document
		html.Parse(&d, charset.Text{Text: text.html}, false, r.b.Pulse)
		plain = d.Text
	}
	return "\n\n" + r.header(m, "Subject") + "\n\n" + plain
}
