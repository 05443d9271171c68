package corpus

import (
	"bytes"
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
func checkText(head []byte) error {
	if bytes.HasPrefix(head, []byte{0xff, 0xfe, 0, 0}) || bytes.HasPrefix(head, []byte{0, 0, 0xfe, 0xff}) {
		return fmt.Errorf("%w: UTF-32; convert it to UTF-8", ErrFormat)
	}
	if utf16Order(head) != nil {
		return nil
	}
	head = head[:min(len(head), probeBytes)]
	bad, n := 0, 0
	for i := 0; i < len(head); {
		r, size := utf8.DecodeRune(head[i:])
		if r == utf8.RuneError && size == 1 && !utf8.FullRune(head[i:]) {
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

func utf16Order(b []byte) binary.ByteOrder {
	switch {
	case bytes.HasPrefix(b, []byte{0xff, 0xfe}):
		return binary.LittleEndian
	case bytes.HasPrefix(b, []byte{0xfe, 0xff}):
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
func decode(raw []byte) decoded {
	if order := utf16Order(raw); order != nil {
		return decodeUTF16(raw, order)
	}
	from := 0
	if bytes.HasPrefix(raw, []byte("\ufeff")) {
		from = 3
	}
	if from == 0 && utf8.Valid(raw) && bytes.IndexByte(raw, 0) < 0 {
		return decoded{text: string(raw)}
	}
	w := textWriter{text: make([]byte, 0, len(raw))}
	repaired := 0
	for i := from; i < len(raw); {
		r, size := utf8.DecodeRune(raw[i:])
		switch {
		case r == 0:
			repaired++
		case r == utf8.RuneError && size == 1:
			w.atom("\ufffd", i, 1)
			repaired++
		default:
			w.segment(i, 1, 1)
			w.text = append(w.text, raw[i:i+size]...)
		}
		i += size
	}
	text, m := w.done()
	return decoded{text, m, repaired}
}

func decodeUTF16(raw []byte, order binary.ByteOrder) decoded {
	var w textWriter
	repaired := 0
	for i := 2; i < len(raw); {
		if i+1 == len(raw) {
			w.atom("\ufffd", i, 1)
			repaired++
			break
		}
		r, size := rune(order.Uint16(raw[i:])), 2
		if utf16.IsSurrogate(r) {
			pair := utf8.RuneError
			if i+3 < len(raw) {
				pair = utf16.DecodeRune(r, rune(order.Uint16(raw[i+2:])))
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
			w.text = utf8.AppendRune(w.text, r)
		}
		i += size
	}
	text, m := w.done()
	return decoded{text, m, repaired}
}

// decodeHTML is decode, and for HTML that is not UTF-8 the one-byte encoding that it declares.
// Browsers look at the first 1024 bytes as well.
func decodeHTML(raw []byte) (decoded, error) {
	if utf16Order(raw) != nil || utf8.Valid(raw) {
		return decode(raw), nil
	}
	name := declaredCharset(raw[:min(len(raw), 1024)])
	enc, err := htmlindex.Get(name)
	if name == "" || err != nil {
		return decode(raw), nil
	}
	if canonical, _ := htmlindex.Name(enc); canonical == "utf-8" || canonical == "utf-16le" || canonical == "utf-16be" {
		return decode(raw), nil
	}
	cm, ok := enc.(*charmap.Charmap)
	if !ok {
		return decoded{}, fmt.Errorf("%w: HTML in %s; convert it to UTF-8", ErrFormat, name)
	}
	w := textWriter{text: make([]byte, 0, len(raw))}
	repaired := 0
	for i, b := range raw {
		r := cm.DecodeByte(b)
		if r == 0 {
			repaired++
			continue
		}
		if r == utf8.RuneError {
			repaired++
		}
		w.segment(i, utf8.RuneLen(r), 1)
		w.text = utf8.AppendRune(w.text, r)
	}
	text, m := w.done()
	return decoded{text, m, repaired}, nil
}

func declaredCharset(head []byte) string {
	lower := bytes.ToLower(head)
	i := bytes.Index(lower, []byte("charset="))
	if i < 0 {
		if i = bytes.Index(lower, []byte("encoding=")); i < 0 { // <?xml encoding="…"?>
			return ""
		}
		i++
	}
	name := strings.TrimLeft(string(lower[i+len("charset="):]), `"' `)
	if end := strings.IndexAny(name, "\"' \t\r\n/>;?"); end >= 0 {
		name = name[:end]
	}
	return name
}
