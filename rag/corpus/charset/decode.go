// Package charset finds the encoding of a text and decodes it, with a map to the bytes of the source.
package charset

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"

	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// ProbeBytes is the length of the beginning of a file by which it is recognised as text.
const ProbeBytes = 8 << 10

// Names of encodings that are missing in the WHATWG's list or recognised without it.
const (
	utf8Name    = "utf-8"
	utf16LEName = "utf-16le"
	utf16BEName = "utf-16be"
	utf32LEName = "utf-32le"
	utf32BEName = "utf-32be"
)

// marks lists the byte order marks. UTF-32LE's begins with UTF-16LE's, so it comes first.
var marks = []struct{ name, bytes string }{{utf32LEName, "\xff\xfe\x00\x00"}, {utf32BEName, "\x00\x00\xfe\xff"},
	{utf16LEName, "\xff\xfe"}, {utf16BEName, "\xfe\xff"}, {utf8Name, "\ufeff"}}

// Of finds the encoding of a text: forced, else by its byte order mark, as UTF-8 if only a few bytes are invalid
// in it, as UTF-16 or UTF-32 by its NULs, else by plausibility. What is not text is ErrFormat.
func Of(raw, forced string) (string, error) {
	if forced != "" {
		return Named(forced)
	}
	for _, m := range marks {
		if strings.HasPrefix(raw, m.bytes) && (len(m.bytes) < 4 || len(raw)%4 == 0) {
			return m.name, nil
		}
	}
	probe := raw[:min(len(raw), ProbeBytes)]
	err := Check(probe)
	if err == nil && utf8.ValidString(raw) {
		if strings.Contains(probe, "\x1b$B") || strings.Contains(probe, "\x1b$@") {
			return "iso-2022-jp", nil
		}
		return utf8Name, nil
	}
	if strings.IndexByte(probe, 0) >= 0 {
		if name := guessUnicode(probe); name != "" {
			return name, nil
		}
		if err != nil {
			return "", err
		}
		return utf8Name, nil
	}
	if mostlyUTF8(raw) {
		return utf8Name, err
	}
	if n := controls(probe); n*50 > len(probe) {
		return "", fmt.Errorf("%w: binary (%d of its first %d bytes are control characters)", doc.ErrFormat, n,
			len(probe))
	}
	if name := Guess(raw); name != "" {
		return name, nil
	}
	if err == nil { // invalid sequences become U+FFFD
		return utf8Name, nil
	}
	return "", fmt.Errorf("%w: binary, or text in an encoding that is not recognised; --encoding names one", doc.ErrFormat)
}

// Named returns this package's name of an encoding.
func Named(name string) (string, error) {
	switch lower := strings.ToLower(strings.TrimSpace(name)); lower {
	case utf32LEName, utf32BEName:
		return lower, nil
	default:
		e, err := htmlindex.Get(lower)
		if err == nil {
			name, err = htmlindex.Name(e)
		}
		if err != nil {
			return "", fmt.Errorf("%w: %q is no encoding; such as utf-8, windows-1252, shift_jis, gb18030 and utf-16le",
				doc.ErrFormat, name)
		}
		return name, nil
	}
}

// mostlyUTF8 reports whether a text is UTF-8 with errors: multi-byte characters outnumber invalid bytes.
func mostlyUTF8(raw string) bool {
	good, bad := 0, 0
	for i := 0; i < len(raw) && good+bad < ProbeBytes; {
		r, size := utf8.DecodeRuneInString(raw[i:])
		if r == utf8.RuneError && size == 1 {
			bad++
		} else if size > 1 {
			good++
		}
		i += size
	}
	return good >= 2*bad
}

// isControl reports whether a control character does not occur in texts.
func isControl(r rune) bool {
	return r < ' ' && !strings.ContainsRune("\t\n\v\f\r\x1b", r) || r == 0x7f
}

func controls(text string) (n int) {
	for i := range len(text) {
		if isControl(rune(text[i])) {
			n++
		}
	}
	return n
}

// guessUnicode recognises UTF-16 and UTF-32 without a byte order mark: in the right byte order they decode to letters,
// spaces and punctuation of a few scripts.
func guessUnicode(probe string) string {
	best, most := "", .9
	for _, name := range []string{utf32LEName, utf32BEName, utf16LEName, utf16BEName} {
		width := 2
		if strings.HasPrefix(name, "utf-32") {
			width = 4
		}
		text := decodeWide(probe[:len(probe)-len(probe)%width], 0, name, nil).Text
		good, ascii, n := 0, 0, 0
		for _, r := range text {
			if n++; r == ' ' || r == '\n' || r < utf8.RuneSelf && unicode.IsLetter(r) {
				ascii++
			}
			switch {
			case r == utf8.RuneError || isControl(r):
			case r < 0x600 || unicode.In(r, unicode.Arabic, unicode.Hebrew, unicode.Thai, unicode.Devanagari,
				unicode.Hiragana, unicode.Katakana, unicode.Hangul) || r >= 0x4e00 && r < 0xa000 || unicode.IsPunct(r):
				good++
			}
		}
		if n*width*2 < len(probe) || ascii == 0 || n < 4 { // few characters besides NULs, which decodeWide removes
			continue
		}
		if share := float64(good) / float64(max(n, 1)); share > most {
			best, most = name, share
		}
	}
	return best
}

// Check refuses bytes that are not UTF-8 text: more than a tenth of the first ones are control characters or
// invalid.
func Check(head string) error {
	head = head[:min(len(head), ProbeBytes)]
	bad, n := 0, 0
	for i := 0; i < len(head); {
		r, size := utf8.DecodeRuneInString(head[i:])
		if r == utf8.RuneError && size == 1 && !utf8.FullRuneInString(head[i:]) {
			break // a character cut by the end of the probe
		}
		if r == utf8.RuneError && size == 1 || isControl(r) {
			bad += size
		}
		i += size
		n += size
	}
	if bad*10 > n {
		return fmt.Errorf("%w: binary (%d of its first %d bytes are control characters or no UTF-8)", doc.ErrFormat,
			bad, n)
	}
	return nil
}

// UTF16Order returns the byte order that a mark at the beginning of a text in UTF-16 says, or nil.
func UTF16Order(b string) binary.ByteOrder {
	switch {
	case strings.HasPrefix(b, "\xff\xfe"):
		return binary.LittleEndian
	case strings.HasPrefix(b, "\xfe\xff"):
		return binary.BigEndian
	}
	return nil
}

// Text is a source as valid UTF-8 without NUL and byte order mark.
type Text struct {
	Text     string
	Map      doc.Map // text → source bytes
	Repaired int
}

// Decode converts a text to valid UTF-8; forced names its encoding, "" detects it. Its name goes to the metadata
// unless it is UTF-8.
func Decode(d *doc.Document, raw, forced string, p *doc.Pulse) (Text, error) {
	name, err := Of(raw, forced)
	if err != nil {
		return Text{}, err
	}
	in, err := DecodeAs(raw, name, p)
	if err == nil && name != utf8Name {
		d.SetMeta(doc.EncodingKey, name)
	}
	d.Repaired += in.Repaired
	return in, err
}

// DecodeAs decodes raw from an encoding named as by Named.
func DecodeAs(raw, name string, p *doc.Pulse) (Text, error) {
	switch name {
	case utf8Name:
		return DecodeUTF8(raw, p), nil
	case utf16LEName, utf16BEName, utf32LEName, utf32BEName:
		return decodeWide(raw, byteOrderMark(raw, name), name, p), nil
	}
	e, err := htmlindex.Get(name)
	if err != nil {
		return Text{}, fmt.Errorf("%w: encoding %q: %w", doc.ErrFormat, name, err)
	}
	var w doc.Writer
	w.Text.Grow(len(raw))
	repaired := 0
	add := func(text string, at, n int) {
		p.Beat()
		switch {
		case text == "\x00":
			repaired++
			return
		case text == "\ufffd":
			repaired++
		}
		if utf8.RuneCountInString(text) != 1 {
			w.Atom(text, at, n)
			return
		}
		w.Segment(at, len(text), n)
		w.Text.WriteString(text)
	}
	if cm, ok := e.(*charmap.Charmap); ok {
		for i := range len(raw) {
			add(string(cm.DecodeByte(raw[i])), i, 1)
		}
	} else {
		characters(e, raw, func(text string, at, n int) bool {
			add(text, at, n)
			return true
		})
	}
	text, m := w.Done()
	return Text{text, m, repaired}, nil
}

// byteOrderMark returns the length of the mark that a text begins with.
func byteOrderMark(raw, name string) int {
	for _, m := range marks {
		if m.name == name && strings.HasPrefix(raw, m.bytes) {
			return len(m.bytes)
		}
	}
	return 0
}

// DecodeUTF8 decodes UTF-8: each invalid byte becomes U+FFFD and NUL is removed; both are counted.
func DecodeUTF8(raw string, p *doc.Pulse) Text {
	from := 0
	if strings.HasPrefix(raw, "\ufeff") {
		from = 3
	}
	if from == 0 && utf8.ValidString(raw) && strings.IndexByte(raw, 0) < 0 {
		return Text{Text: raw}
	}
	var w doc.Writer
	w.Text.Grow(len(raw))
	repaired := 0
	for i := from; i < len(raw); {
		p.Beat()
		r, size := utf8.DecodeRuneInString(raw[i:])
		switch {
		case r == 0:
			repaired++
		case r == utf8.RuneError && size == 1:
			w.Atom("\ufffd", i, 1)
			repaired++
		default:
			w.Segment(i, 1, 1)
			w.Text.WriteString(raw[i : i+size])
		}
		i += size
	}
	text, m := w.Done()
	return Text{text, m, repaired}
}

// decodeWide decodes UTF-16 or UTF-32 from the byte offset from.
func decodeWide(raw string, from int, name string, p *doc.Pulse) Text {
	var order binary.ByteOrder = binary.LittleEndian
	if name == utf16BEName || name == utf32BEName {
		order = binary.BigEndian
	}
	next := utf16Rune
	if name == utf32LEName || name == utf32BEName {
		next = utf32Rune
	}
	var w doc.Writer
	repaired := 0
	for i := from; i < len(raw); {
		p.Beat()
		r, size := next(raw[i:], order)
		switch {
		case r == utf8.RuneError:
			w.Atom("\ufffd", i, size)
			repaired++
		case r == 0:
			repaired++
		default:
			w.Segment(i, utf8.RuneLen(r), size)
			w.Text.WriteRune(r)
		}
		i += size
	}
	text, m := w.Done()
	return Text{text, m, repaired}
}

func utf16Rune(raw string, order binary.ByteOrder) (r rune, size int) {
	if len(raw) < 2 {
		return utf8.RuneError, len(raw)
	}
	unit := func(i int) rune { return rune(order.Uint16([]byte{raw[i], raw[i+1]})) }
	if r = unit(0); !utf16.IsSurrogate(r) {
		return r, 2
	}
	if len(raw) > 3 {
		if r = utf16.DecodeRune(r, unit(2)); r != utf8.RuneError {
			return r, 4
		}
	}
	return utf8.RuneError, 2
}

func utf32Rune(raw string, order binary.ByteOrder) (r rune, size int) {
	if len(raw) < 4 {
		return utf8.RuneError, len(raw)
	}
	if r = rune(order.Uint32([]byte(raw[:4]))); !utf8.ValidRune(r) {
		r = utf8.RuneError
	}
	return r, 4
}

// DecodeHTML is Decode for HTML: if it is not UTF-8, the encoding that it declares in its first 1024 bytes (as in
// browsers) takes precedence over a guess.
func DecodeHTML(d *doc.Document, raw, forced string, p *doc.Pulse) (Text, error) {
	if forced == "" && UTF16Order(raw) == nil && !utf8.ValidString(raw) {
		name, err := Named(declaredCharset(raw[:min(len(raw), 1024)]))
		if err == nil && name != utf8Name && name != utf16LEName && name != utf16BEName && name != "replacement" {
			forced = name
		}
	}
	return Decode(d, raw, forced, p)
}

func declaredCharset(head string) string {
	lower := strings.ToLower(head)
	i := strings.Index(lower, "charset=")
	if i < 0 {
		if i = strings.Index(lower, "encoding="); i < 0 { // <?xml encoding="…"?>
			return ""
		}
		i++
	}
	name := strings.TrimLeft(lower[i+len("charset="):], `"' `)
	if end := strings.IndexAny(name, "\"' \t\r\n/>;?"); end >= 0 {
		name = name[:end]
	}
	return name
}
