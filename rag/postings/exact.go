package postings

import (
	"strings"
	"unicode"
)

// maxExact is how long a name may be, in bytes: what is longer is data.
const maxExact = 64

// exact calls f with each name that stands between spaces, as it is written: options (-H, --leak-check=full, and
// --leak-check without its value), identifiers, paths, and numbers with signs inside. Their parts are words as well,
// but a stem of a part says little. An option that begins a line, where manuals define it, is a further term, with a
// newline before it; of a query, each option is.
func exact(text string, query bool, f func(term string)) {
	if !hasSign(text) {
		return
	}
	for line := range strings.Lines(text) {
		first := true // the line has had nothing but options
		for field := range strings.FieldsSeq(line) {
			if !hasSign(field) {
				first = false
				continue
			}
			name := strings.TrimRightFunc(strings.TrimLeftFunc(field, opens), closes)
			option := len(name) > 1 && name[0] == '-' && strings.IndexFunc(name, isLetterOrDigit) > 0
			first = first && option
			if len(name) > maxExact || !option && !isName(name) {
				continue
			}
			f(name)
			base := name
			if at := strings.IndexAny(name, "=["); option && at > 1 {
				base = name[:at]
				f(base)
			}
			if option && (first || query) {
				f("\n" + base)
			}
		}
	}
}

// isName reports whether a sign stands between letters or digits, or before them all as in a path. What is joined by
// hyphens alone is a word, unless it has a digit.
func isName(s string) bool {
	signs, digits, hyphens := 0, 0, 0
	for i, r := range s {
		switch {
		case '0' <= r && r <= '9':
			digits++
		case r == '-':
			hyphens++
		case isSign(r) && (i > 0 || r == '/' || r == '.' || r == '$'):
			signs++
		case !unicode.IsLetter(r):
			return false
		}
	}
	return len(s) > signs+hyphens && (signs > 0 || hyphens > 0 && digits > 0)
}

// isSign reports whether names have a character inside.
func isSign(r rune) bool {
	switch r {
	case '-', '_', '=', '/', '.', ':', '\\', '@', '#', '+', '$', '%', ',':
		return true
	}
	return false
}

// hasSign reports whether a text has a sign of names. All signs are ASCII, so that bytes can be compared.
func hasSign(text string) bool {
	return strings.ContainsFunc(text, isSign)
}

// opens reports whether a character stands before a name and does not belong to it.
func opens(r rune) bool {
	switch r {
	case '(', '[', '{', '<', '"', '\'', '`', '“', '‘', '„', '*':
		return true
	}
	return false
}

// closes reports whether a character stands behind a name and does not belong to it.
func closes(r rune) bool {
	switch r {
	case '(', ')', '[', ']', '{', '}', '<', '>', '"', '\'', '`', '”', '’', '*', '.', ',', ';', ':', '?', '!', '…':
		return true
	}
	return false
}

func isLetterOrDigit(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
