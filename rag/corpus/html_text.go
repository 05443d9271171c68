package corpus

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
)

// declarations reports whether the declarations of a document type are still to come.
func declarations(doctype string) bool {
	return strings.Contains(doctype, "[") && !strings.Contains(doctype, "]")
}

// entity decodes the character reference that s begins with; n is its length, 0 if s begins with none. The longest name
// has 33 bytes. Outside of HTML a name must be whole and end with a semicolon.
func entity(s string, whole bool) (text string, n int) {
	for n = 1; n < len(s) && n < 40 && (isAlnum(s[n]) || n == 1 && s[n] == '#'); n++ {
	}
	if n < len(s) && s[n] == ';' {
		n++
	}
	text = html.UnescapeString(s[:n])
	// a name stands for at most two characters: a longer text means that only a prefix was a name
	if text == s[:n] || whole && (s[n-1] != ';' || utf8.RuneCountInString(text) > 2) {
		return "", 0
	}
	return text, n
}

func isAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// isXML reports whether src is well-formed enough to be tokenised as XML; other XHTML is read as HTML. Unclosed
// elements and undeclared entities are allowed.
func isXML(src string, p *pulse) bool {
	if prolog, rest, ok := strings.Cut(src, "?>"); ok && strings.HasPrefix(prolog, "<?xml ") {
		src = rest // its encoding has been decoded already
	}
	d := xml.NewDecoder(beating{strings.NewReader(src), p})
	d.Strict = false
	for {
		if _, err := d.RawToken(); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}
