package corpus

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
)

// probeBytes is how much of a file decides whether it is text.
const probeBytes = 8 << 10

// checkText refuses what is not UTF-8 text: more than a tenth of its first bytes are control
// characters or invalid. UTF-16 is told by its byte order mark and passes.
func checkText(head string) error {
	if strings.HasPrefix(head, "\xff\xfe\x00\x00") || strings.HasPrefix(head, "\x00\x00\xfe\xff") {
		return fmt.Errorf("%w: UTF-32; convert it to UTF-8", ErrFormat)
	}
	if utf16Order(head) != nil {
		return nil
	}
	head = head[:min(len(head), probeBytes)]
	bad, n := 0, 0
	for i := 0; i < len(head); {
		r, size := utf8.DecodeRuneInString(head[i:])
		if r == utf8.RuneError && size == 1 && !utf8.FullRuneInString(head[i:]) {
			break // a character cut by the end of the probe
		}
		if r == utf8.RuneError && size == 1 || r < ' ' && !strings.ContainsRune("\t\n\v\f\r\x1b", r) || r == 0x7f {
			bad += size
		}
		i += size
		n += size
	}
	if bad*10 > n {
		return fmt.Errorf("%w: binary, or text that is not UTF-8 (%d of its first %d bytes are control characters or "+
			"invalid); convert text to UTF-8", ErrFormat, bad, n)
	}
	return nil
}

func utf16Order(b string) binary.ByteOrder {
	switch {
	case strings.HasPrefix(b, "\xff\xfe"):
		return binary.LittleEndian
	case strings.HasPrefix(b, "\xfe\xff"):
		return binary.BigEndian
	}
	return nil
}

// decoded is a source as valid UTF-8 without NUL and byte order mark.
type decoded struct {
	text     string
	m        offsetMap // text → source bytes
	repaired int
}

// decode makes valid UTF-8 of raw: UTF-16 by its byte order mark, else UTF-8; what is invalid
// becomes U+FFFD, one per byte, and NUL is removed; both are counted.
func decode(raw string, p *pulse) decoded {
	if order := utf16Order(raw); order != nil {
		return decodeUTF16(raw, order, p)
	}
	from := 0
	if strings.HasPrefix(raw, "\ufeff") {
		from = 3
	}
	if from == 0 && utf8.ValidString(raw) && strings.IndexByte(raw, 0) < 0 {
		return decoded{text: raw}
	}
	var w textWriter
	w.text.Grow(len(raw))
	repaired := 0
	for i := from; i < len(raw); {
		p.beat()
		r, size := utf8.DecodeRuneInString(raw[i:])
		switch {
		case r == 0:
			repaired++
		case r == utf8.RuneError && size == 1:
			w.atom("\ufffd", i, 1)
			repaired++
		default:
			w.segment(i, 1, 1)
			w.text.WriteString(raw[i : i+size])
		}
		i += size
	}
	text, m := w.done()
	return decoded{text, m, repaired}
}

func decodeUTF16(raw string, order binary.ByteOrder, p *pulse) decoded {
	var w textWriter
	unit := func(i int) rune { return rune(order.Uint16([]byte{raw[i], raw[i+1]})) }
	repaired := 0
	for i := 2; i < len(raw); {
		p.beat()
		if i+1 == len(raw) {
			w.atom("\ufffd", i, 1)
			repaired++
			break
		}
		r, size := unit(i), 2
		if utf16.IsSurrogate(r) {
			pair := utf8.RuneError
			if i+3 < len(raw) {
				pair = utf16.DecodeRune(r, unit(i+2))
			}
			if r = pair; r == utf8.RuneError {
				repaired++
			} else {
				size = 4
			}
		}
		if r == 0 {
			repaired++
		} else {
			w.segment(i, utf8.RuneLen(r), size)
			w.text.WriteRune(r)
		}
		i += size
	}
	text, m := w.done()
	return decoded{text, m, repaired}
}

// decodeHTML is decode, and for HTML that is not UTF-8 the one-byte encoding that it declares.
// Browsers look at the first 1024 bytes as well.
func decodeHTML(raw string, p *pulse) (decoded, error) {
	if utf16Order(raw) != nil || utf8.ValidString(raw) {
		return decode(raw, p), nil
	}
	name := declaredCharset(raw[:min(len(raw), 1024)])
	enc, err := htmlindex.Get(name)
	if name == "" || err != nil {
		return decode(raw, p), nil
	}
	if canonical, _ := htmlindex.Name(enc); canonical == "utf-8" || canonical == "utf-16le" || canonical == "utf-16be" {
		return decode(raw, p), nil
	}
	cm, ok := enc.(*charmap.Charmap)
	if !ok {
		return decoded{}, fmt.Errorf("%w: HTML in %s; convert it to UTF-8", ErrFormat, name)
	}
	var w textWriter
	w.text.Grow(len(raw))
	repaired := 0
	for i := range len(raw) {
		p.beat()
		r := cm.DecodeByte(raw[i])
		if r == 0 {
			repaired++
			continue
		}
		if r == utf8.RuneError {
			repaired++
		}
		w.segment(i, utf8.RuneLen(r), 1)
		w.text.WriteRune(r)
	}
	text, m := w.done()
	return decoded{text, m, repaired}, nil
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
