package quote

import "strings"

// leans reports whether a sentence begins with a word that stands for something said before it: a pronoun or a
// demonstrative of English, German, French, Spanish or Italian.
func leans(sentence string) bool {
	first, _, _ := strings.Cut(strings.TrimLeft(sentence, "\"'“„«(["), " ")
	switch strings.ToLower(strings.TrimRight(first, ",;:")) {
	case "he", "she", "it", "they", "this", "these", "those", "that", "his", "her", "its", "their", "such",
		"er", "sie", "es", "ihm", "ihnen", "dies", "diese", "dieser", "dieses", "diesem", "diesen", "jene", "jener",
		"jenes", "solche", "solcher", "solches", "beide", "deren", "dessen", "ihr", "ihre", "ihrem", "ihren", "ihrer",
		"ihres", "sein", "seine", "seinem", "seinen", "seiner", "seines", "dort", "dazu", "dabei", "dadurch", "dafür",
		"dagegen", "daher", "damit", "danach", "darauf", "daraufhin", "darin", "davon", "dennoch", "deshalb",
		"stattdessen", "trotzdem",
		"il", "elle", "ils", "elles", "ce", "cet", "cette", "ces", "cela", "celui-ci", "celle-ci", "leur", "leurs",
		"él", "ella", "ellos", "ellas", "este", "esta", "esto", "estos", "estas", "su", "sus",
		"egli", "esso", "essa", "essi", "questo", "questa", "questi", "queste":
		return true
	}
	return false
}
