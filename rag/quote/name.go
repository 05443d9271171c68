package quote

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// codeName is a word that people write in code only: a call, an option of a command, a path, parts joined by dots or
// underscores.
var codeName = regexp.MustCompile(`^(?:[\pL\d_.:]+\(.*\)|--?\pL[\pL\d-]*|[~/]?(?:[\w.-]+/)+[\w.-]*|/\w+|\^\pL|` +
	`\pL[\pL\d]+(?:[._]|::)\pL[\pL\d._:]+)$`)

// mostCodeNames is how many names of code of a question count.
const mostCodeNames = 8

// codeNames returns the names of code in a question, a call up to its parenthesis.
func codeNames(question string) (names []string) {
	for _, word := range strings.Fields(question) {
		word = strings.Trim(word, "?,.;:!\"'`‘’“”„«»")
		if !codeName.MatchString(word) || strings.EqualFold(word, "and/or") {
			continue
		}
		if i := strings.IndexByte(word, '('); i > 0 {
			word = word[:i+1]
		}
		if names = append(names, word); len(names) == mostCodeNames {
			break
		}
	}
	return names
}

// hasName reports whether a text has a name of code, not as a part of another one.
func hasName(text, name string) bool {
	isPart := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) || strings.ContainsRune("_-/", r) }
	for at := 0; ; {
		i := strings.Index(text[at:], name)
		if i < 0 {
			return false
		}
		at += i + len(name)
		before, _ := utf8.DecodeLastRuneInString(text[:at-len(name)])
		after, _ := utf8.DecodeRuneInString(text[at:])
		if !isPart(before) && (strings.HasSuffix(name, "(") || !isPart(after)) {
			return true
		}
	}
}

// mostTermWords is how many words the terms of a definition have at most.
const mostTermWords = 5

// isDefinition reports whether a text is "term: definition" and the question has the term.
func isDefinition(text, question string) bool {
	term, rest, ok := strings.Cut(text, ": ")
	words := strings.FieldsFunc(strings.ToLower(term), isNoPart)
	if !ok || len(words) == 0 || len(words) > mostTermWords || len(strings.Fields(rest)) < mostTermWords {
		return false
	}
	asked := strings.FieldsFunc(strings.ToLower(question), isNoPart)
	for _, word := range words {
		if !slices.Contains(asked, word) {
			return false
		}
	}
	return true
}

func isNoPart(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) }
