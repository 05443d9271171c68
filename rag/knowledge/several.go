package knowledge

import (
	"strings"

	"github.com/sluice-rag/sluice/rag/corpus"
)

// partWords is the least number of words of a part of a question: "salt and pepper" is one thing.
const partWords = 3

// asksSeveral reports whether a question may ask several things: it has several sentences, a semicolon, or a
// conjunction with at least partWords words on either side.
func asksSeveral(question string) bool {
	question = strings.TrimRight(question, ".?!; \n")
	if ends := corpus.SentenceEnds(question); len(ends) > 1 || strings.Contains(question, ";") {
		return true
	}
	words := strings.Fields(question)
	for i := partWords; i < len(words)-partWords; i++ {
		switch strings.ToLower(words[i]) {
		case "and", "or", "und", "oder", "sowie", "et", "ou", "y", "o", "e": // en, de, fr, es, it, pt
			return true
		}
	}
	return false
}
