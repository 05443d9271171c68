package quote

import "strings"

// leans tells whether a sentence begins with a word that stands for something said before it: a pronoun or a
// demonstrative of English, German, French, Spanish or Italian.
func leans(sentence string) bool {
	first, _, _ := strings.Cut(strings.TrimLeft(sentence, "\"'“„«(["), " ")
	switch strings.ToLower(strings.TrimRight(first, ",;:")) {
	case "he", "she", "it", "they", "this", "these", "those", "that", "his", "her", "its", "their", "such",
		"er", "sie", "es", "dies", "diese", "dieser", "dieses", "jene", "jener", "jenes", "deren", "dessen", "ihr",
		"ihre",
		"ihren", "sein", "seine", "dazu", "dabei", "dadurch", "daher", "deshalb",
		"il", "elle", "ils", "elles", "ce", "cet", "cette", "ces", "cela", "celui-ci", "celle-ci", "leur", "leurs",
		"él", "ella", "ellos", "ellas", "este", "esta", "esto", "estos", "estas", "su", "sus",
		"egli", "esso", "essa", "essi", "questo", "questa", "questi", "queste":
		return true
	}
	return false
}
