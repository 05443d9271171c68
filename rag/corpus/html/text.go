package html

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"

	"github.com/sluice-rag/sluice/rag/corpus/internal/doc"
)

// declarations reports whether the declarations of a document type are still to come.
func declarations(doctype string) bool {
	return strings.Contains(doctype, "[") && !strings.Contains(doctype, "]")
}

// Entity decodes the character reference that s begins with; n is its length, 0 if s begins with none. The longest name
// has 33 bytes. Outside of HTML a name must be whole and end with a semicolon.
func Entity(s string, whole bool) (text string, n int) {
	for n = 1; n < len(s) && n < 40 && (doc.IsAlnum(s[n]) || n == 1 && s[n] == '#'); n++ {
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

// IsXML reports whether src is well-formed enough to be tokenised as XML; other XHTML is read as HTML. Unclosed
// elements and undeclared entities are allowed.
func IsXML(src string, p *doc.Pulse) bool {
	if prolog, rest, ok := strings.Cut(src, "?>"); ok && strings.HasPrefix(prolog, "<?xml ") {
		src = rest // its encoding has been decoded already
	}
	d := xml.NewDecoder(p.Reader(strings.NewReader(src)))
	d.Strict = false
	for {
		if _, err := d.RawToken(); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}
