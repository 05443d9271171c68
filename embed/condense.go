package embed

import (
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"
)

// longestWord returns how many characters a word of a BERT tokenizer may have that is not unknown; 0 for other
// tokenizers, and for those whose own tokens might lie within a word.
func longestWord(tokenizer []byte) int {
	type typed struct {
		Type string `json:"type"`
	}
	var t struct {
		Normalizer   typed `json:"normalizer"`
		PreTokenizer typed `json:"pre_tokenizer"`
		Model        struct {
			typed
			Most int `json:"max_input_chars_per_word"`
		} `json:"model"`
		Added []struct {
			Content string `json:"content"`
		} `json:"added_tokens"`
	}
	if json.Unmarshal(tokenizer, &t) != nil || t.Normalizer.Type != "BertNormalizer" ||
		t.PreTokenizer.Type != "BertPreTokenizer" || t.Model.Type != "WordPiece" {
		return 0
	}
	for _, a := range t.Added {
		if r, _ := utf8.DecodeRuneInString(a.Content); unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsSpace(r) {
			return 0
		}
	}
	return max(t.Model.Most, 0)
}

// condenses is from how many bytes on a text is looked at by condense.
const condenses = 64 << 10

// condense shortens what a BERT tokenizer reads at length and makes no more of: a run of white space means as much as
// its first character, and of a word of too many characters, which is one unknown token, some more than wordChars are
// enough. Other texts, and all where wordChars is 0, it returns as they are: the tokens are the same.
func condense(text string, wordChars int) string {
	if wordChars == 0 || len(text) < condenses {
		return text
	}
	var b strings.Builder
	b.Grow(len(text))
	inWord, inSpace := 0, false
	for i := 0; i < len(text); {
		c, n := text[i], 1
		letter, space := false, c == ' ' || c == '\t' || c == '\n' || c == '\r'
		if c < utf8.RuneSelf {
			letter = c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9'
		} else {
			var r rune
			r, n = utf8.DecodeRuneInString(text[i:])
			letter = r < 0x2000 && unicode.IsLetter(r) // none of those that are words by themselves
		}
		if letter {
			inWord++
		} else {
			inWord = 0
		}
		if !(space && inSpace) && inWord <= wordChars+1 {
			b.WriteString(text[i : i+n])
		}
		inSpace = space
		i += n
	}
	return b.String()
}
