package corpus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"

	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// parseJSONLine reads {"id","text","topic"?,"title"?,…}. Further fields go to Meta. A title is the heading of the text.
// A document without an id gets one from the digest of its text. With own, raw is overwritten: the document's text may
// share its memory.
func parseJSONLine(raw []byte, at int, own bool, p *doc.Pulse) (*Document, error) {
	skip := 0
	if at == 0 && bytes.HasPrefix(raw, []byte("\ufeff")) {
		skip = 3
	}
	at += skip
	raw = raw[skip:]
	d := &Document{}
	hasText, fields := false, map[string]*string{"id": &d.ID, "topic": &d.Topic, "title": &d.Title, "text": &d.Text}
	err := jsonFields(raw, func(key string, value []byte, offset int) error {
		if value[0] != '"' {
			if key == "id" && (value[0] == '-' || value[0] >= '0' && value[0] <= '9') {
				d.ID = string(value)
				return nil
			}
			if fields[key] == nil {
				d.KeepMeta(key, value)
			} else if string(value) != "null" {
				return fmt.Errorf("%w: %q is not a string", ErrFormat, key)
			}
			return nil
		}
		text, m, repaired := unquote(value, at+offset, own && key == "text", p)
		d.Repaired += repaired
		if key == "text" {
			d.Offsets, hasText = m, true
		}
		switch field := fields[key]; {
		case field != nil:
			*field = text
		case key == AccessKey:
			d.SetMeta(key, doc.Access(text))
		default:
			d.SetMeta(key, text)
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case !hasText:
		return nil, fmt.Errorf("%w: no \"text\" field", ErrFormat)
	}
	d.Normalise(p)
	if strings.TrimSpace(d.ID) == "" {
		d.ID = "text-" + doc.TextDigest(d.Text)[:16]
	}
	if strings.TrimSpace(d.Title) != "" {
		d.Sections = []Section{{Heading: []string{strings.Join(strings.Fields(d.Title), " ")}, End: len(d.Text),
			Source: d.Offsets.Start(0)}}
	}
	return d, nil
}

// jsonFields calls f with the keys and the non-empty raw values of the object in raw. It copies no value: memory may
// not hold a large text twice.
func jsonFields(raw []byte, f func(key string, value []byte, offset int) error) error {
	if !json.Valid(raw) {
		var v struct{}
		err := json.Unmarshal(raw, &v) // to get the error
		return fmt.Errorf("%w: not a JSON object: %v", ErrFormat, err)
	}
	// From here on raw is valid JSON, and no syntax is checked.
	at := jsonSpace(raw, 0)
	if raw[at] != '{' {
		return fmt.Errorf("%w: not a JSON object", ErrFormat)
	}
	for at = jsonSpace(raw, at+1); raw[at] != '}'; {
		if raw[at] == ',' {
			at = jsonSpace(raw, at+1)
		}
		end := jsonEnd(raw, at)
		key, _, _ := unquote(raw[at:end], 0, false, nil)
		at = jsonSpace(raw, jsonSpace(raw, end)+1) // behind the colon
		end = jsonEnd(raw, at)
		if err := f(key, raw[at:end], at); err != nil {
			return err
		}
		at = jsonSpace(raw, end)
	}
	return nil
}

// jsonSpace returns the offset of the first byte at or behind at that is not white space.
func jsonSpace(raw []byte, at int) int {
	for at < len(raw) && (raw[at] == ' ' || raw[at] == '\t' || raw[at] == '\n' || raw[at] == '\r') {
		at++
	}
	return at
}

// jsonEnd returns the end of the value that begins at at.
func jsonEnd(raw []byte, at int) int {
	depth := 0
	for ; ; at++ {
		switch raw[at] {
		case '"':
			for at++; raw[at] != '"'; at++ {
				if raw[at] == '\\' {
					at++
				}
			}
			if depth == 0 {
				return at + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return at + 1
			}
		default:
			if depth > 0 {
				continue
			}
			for ; !strings.ContainsRune(",}] \t\r\n", rune(raw[at])); at++ { // a number, true, false, null
			}
			return at
		}
	}
}

// unquote decodes a valid JSON string literal that stands at source offset at, with its map. Lone surrogates and
// invalid UTF-8 become U+FFFD, NUL is removed; both are counted. With own, the text overwrites the literal.
func unquote(lit []byte, at int, own bool, p *doc.Pulse) (text string, m doc.Map, repaired int) {
	out := lit[:0]
	if !own {
		out = make([]byte, 0, len(lit))
	}
	for i := 1; i < len(lit)-1; {
		p.Beat()
		if n := plainBytes(lit[i : len(lit)-1]); n > 0 {
			m.Add(len(out), at+i, 1, 1)
			out = append(out, lit[i:i+n]...)
			i += n
			continue
		}
		r, n := utf8.DecodeRune(lit[i:])
		escaped := r == '\\'
		if escaped {
			r, n = unescape(lit[i:])
		}
		switch {
		case r == 0:
			repaired++
			i += n
			continue
		case r == utf8.RuneError && (n == 1 || escaped && !bytes.EqualFold(lit[i:i+n], []byte(`\ufffd`))):
			repaired++
			escaped = true // the character differs from the source bytes
		}
		size := utf8.RuneLen(r)
		if own && len(out)+size > i+n { // U+FFFD for single bytes needs more room than they left
			out, own = append(make([]byte, 0, len(lit)), out...), false
		}
		if escaped {
			m.Add(len(out), at+i, size, n)
		} else {
			m.Add(len(out), at+i, 1, 1)
		}
		out = utf8.AppendRune(out, r)
		i += n
	}
	return unsafe.String(unsafe.SliceData(out), len(out)), m, repaired // out is not written to any more
}

// plainBytes returns how many ASCII characters at the beginning of a JSON string need no decoding, at most as many as
// are copied between two checks of the context.
func plainBytes(s []byte) (n int) {
	s = s[:min(len(s), 4<<10)]
	for n < len(s) && s[n] != '\\' && s[n] < utf8.RuneSelf && s[n] != 0 {
		n++
	}
	return n
}

// unescape decodes the escape sequence that s begins with and returns its length.
func unescape(s []byte) (rune, int) {
	switch s[1] {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		r := hex4(s[2:])
		if !utf16.IsSurrogate(r) {
			return r, 6
		}
		if len(s) >= 12 && s[6] == '\\' && s[7] == 'u' {
			if pair := utf16.DecodeRune(r, hex4(s[8:])); pair != utf8.RuneError {
				return pair, 12
			}
		}
		return utf8.RuneError, 6
	}
	return rune(s[1]), 2 // quote, backslash, slash
}

func hex4(s []byte) rune {
	v, _ := strconv.ParseUint(string(s[:4]), 16, 32) // the literal is valid
	return rune(v)
}
