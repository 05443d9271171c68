package check

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// token is a run of letters, marks and digits.
type token struct {
	start, end int    // bytes of the text
	raw        string // as it is written
	key        string // in lower case, without accents
	upper      bool   // begins with a capital
}

// tokens splits a text at every character that is not a letter, mark or digit. The s behind an apostrophe is dropped,
// and capitals with dots between them are one token: "Newton's" is newton, "U.S." is us.
func tokens(text string) (list []token) {
	start := -1
	add := func(end int) {
		if start < 0 {
			return
		}
		raw := text[start:end]
		first, _ := utf8.DecodeRuneInString(raw)
		t := token{start: start, end: end, raw: raw, key: fold(raw), upper: unicode.IsUpper(first)}
		start = -1
		if t.key == "s" && (strings.HasSuffix(text[:t.start], "'") || strings.HasSuffix(text[:t.start], "’")) {
			return
		}
		if n := len(list); n > 0 && t.upper && len(raw) == 1 && list[n-1].end == t.start-1 &&
			text[t.start-1] == '.' && list[n-1].raw == strings.ToUpper(list[n-1].raw) && letters(list[n-1].raw) &&
			(len(list[n-1].raw) == 1 || strings.HasSuffix(text[:list[n-1].end-1], ".")) {
			list[n-1].end, list[n-1].raw, list[n-1].key = t.end, list[n-1].raw+raw, list[n-1].key+t.key
			return
		}
		list = append(list, t)
	}
	for i, r := range text {
		in := r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r))
		switch {
		case in && start < 0:
			start = i
		case !in && !inner(text, i, r):
			add(i)
		}
	}
	add(len(text))
	return list
}

// inner reports whether an apostrophe is within a name, as in "L'Oyseleur" and "Ba'athist", and no genitive or
// contraction.
func inner(text string, at int, r rune) bool {
	if r != '\'' && r != '’' {
		return false
	}
	rest := text[at+utf8.RuneLen(r):]
	n := strings.IndexFunc(rest, func(r rune) bool { return !unicode.IsLetter(r) })
	if n < 0 {
		n = len(rest)
	}
	switch rest[:n] {
	case "", "s", "t", "d", "m", "ll", "re", "ve":
		return false
	}
	return true
}

// letters reports whether a token has no digit.
func letters(raw string) bool { return !strings.ContainsFunc(raw, unicode.IsDigit) }

// fold returns a word in lower case without accents.
func fold(word string) string {
	word = strings.ToLower(word)
	for i := range len(word) {
		if word[i] >= utf8.RuneSelf {
			word = strings.Map(func(r rune) rune {
				if unicode.Is(unicode.Mn, r) {
					return -1
				}
				return r
			}, norm.NFD.String(word))
			return strings.ReplaceAll(word, "ß", "ss")
		}
	}
	return word
}
