package pdf

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// pdfHyphenation decides what a hyphen at the end of a line is: one of the word, which stays, or one of the line. The
// words that the document has within its lines say so.
type pdfHyphenation struct {
	words map[string]int
	hard  int // hyphens of words and of lines, as far as these words tell
	soft  int
}

// hyphenation counts the words of a document, and its hyphens at the ends of lines.
func hyphenation(pages [][]pdfLine) pdfHyphenation {
	h := pdfHyphenation{words: map[string]int{}}
	var parted [][2]string
	for _, lines := range pages {
		broken := false
		for i, l := range lines {
			words := strings.FieldsFunc(strings.ToLower(l.text), notInWord)
			if broken && len(words) > 0 {
				words = words[1:]
			}
			if _, broken = cutHyphen(l.text); broken {
				if i+1 < len(lines) {
					a, b := lastPart(l.text), firstPart(lines[i+1].text)
					parted = append(parted, [2]string{a, b})
				}
				if len(words) > 0 {
					words = words[:len(words)-1]
				}
			}
			for _, word := range words {
				h.words[strings.Trim(word, "-")]++
			}
		}
	}
	for _, p := range parted {
		switch hard, soft := h.words[p[0]+"-"+p[1]], h.words[p[0]+p[1]]; {
		case hard > soft:
			h.hard++
		case soft > hard:
			h.soft++
		}
	}
	return h
}

// notInWord reports whether a character separates words; a hyphen does not.
func notInWord(r rune) bool { return !unicode.IsLetter(r) && r != '-' && !unicode.IsMark(r) }

// cutHyphen takes the hyphen from the end of a line.
func cutHyphen(text string) (string, bool) {
	text = strings.TrimSpace(text)
	if whole := strings.TrimRight(text, pdfHyphens+"\u00ad"); whole != text {
		return strings.TrimSuffix(whole, "-"), true
	}
	if whole, ok := strings.CutSuffix(text, "-"); ok {
		r, _ := utf8.DecodeLastRuneInString(whole)
		return whole, unicode.IsLetter(r) || unicode.IsDigit(r)
	}
	return text, false
}

// lastPart returns the last word of a line in lower case, firstPart the first one.
func lastPart(line string) string {
	whole, _ := cutHyphen(line)
	return strings.ToLower(whole[strings.LastIndexFunc(whole, notInWord)+1:])
}

func firstPart(line string) string {
	line = strings.TrimSpace(line)
	if i := strings.IndexFunc(line, notInWord); i >= 0 {
		line = line[:i]
	}
	return strings.ToLower(strings.TrimRight(line, pdfHyphens+"-"))
}

// compoundHeads begin words with a hyphen; wholeHeads begin words without one, although they are words themselves.
const (
	compoundHeads = " well self non ex semi half quasi cross high low long short full part large small first " +
		"second third twenty thirty forty fifty sixty seventy eighty ninety two three four five six seven eight nine ten "
	wholeHeads = " under over with some any every out your them how never when where who what there here " +
		"up down for more back ever fore "
)

// keeps reports whether the hyphen between two parts of a word is the word's.
func (h pdfHyphenation) keeps(line, next string) bool {
	r, _ := utf8.DecodeRuneInString(strings.TrimSpace(next))
	a, b := lastPart(line), firstPart(next)
	if !unicode.IsLower(r) || a == "" || b == "" {
		return true
	}
	if strings.HasSuffix(strings.TrimSpace(line), "\u00ad") {
		return false
	}
	hard, soft := h.words[a+"-"+b], h.words[a+b]
	if hard != soft {
		return hard > soft
	}
	if strings.Contains(compoundHeads, " "+a+" ") || a == "co" && b[0] == 'o' {
		return true
	}
	if h.soft == 0 && h.hard > 0 {
		return true
	}
	return len(a) > 3 && len(b) > 3 && h.words[a] > 0 && h.words[b] > 0 && !strings.Contains(wholeHeads, " "+a+" ")
}

// joined are lines as one text; a word that was parted at the end of a line is put together.
func (h pdfHyphenation) joined(lines []pdfLine) string {
	var b strings.Builder
	for i, l := range lines {
		text := strings.TrimSpace(l.text)
		whole, hyphen := cutHyphen(text)
		switch {
		case i+1 == len(lines):
			b.WriteString(text)
		case !hyphen:
			b.WriteString(text + " ")
		case h.keeps(text, lines[i+1].text):
			b.WriteString(whole + "-")
		default:
			b.WriteString(whole)
		}
	}
	return plainPDF(b.String())
}
