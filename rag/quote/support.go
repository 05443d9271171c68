package quote

import (
	"context"
	"slices"
	"strings"
	"unicode"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/rag/postings"
)

// Support is how well passages answer a question, without a call of a model beside the encoder.
type Support struct {
	Score   float64 `json:"score"`   // what the other fields come to
	Best    float64 `json:"best"`    // of the best sentence, as Choose scores it
	Margin  float64 `json:"margin"`  // of the best sentence above the mean of the next three
	Numbers int     `json:"numbers"` // of the question that no passage has
	Names   int     `json:"names"`   // likewise
	Negated bool    `json:"negated"` // the question is, and the best sentence is not
}

// What counts for the score of Support, rounded from regressions on both halves of squad16
// (docs/adr/0034-second-question.md).
const (
	marginWeight  = .5
	negatedWeight = 3.
	numbersWeight = 1.5
	namesWeight   = .7
)

// nextSentences are what the best sentence is compared with.
const nextSentences = 3

// Weigh returns the evidence of passages for a question in a language (ISO 639-1, or ""). Max of the options does not
// count. ok is false if the passages have no sentence.
func Weigh(
	ctx context.Context, o Options, question engine.Vectors, w *postings.Query, language string, passages []string,
) (e Support, ok bool, err error) {
	o.Found = nil
	all, _, err := o.rank(ctx, question, w, passages)
	if err != nil || len(all) == 0 {
		return e, false, err
	}
	e.Best = all[0].Score
	next := all[1:min(len(all), 1+nextSentences)]
	for _, c := range next {
		e.Margin += (e.Best - c.Score) / float64(len(next))
	}
	e.Numbers, e.Names = missing(o.Question, language, passages)
	e.Negated = negated(o.Question) && !negated(all[0].Text)
	e.Score = e.Best + marginWeight*e.Margin - numbersWeight*float64(e.Numbers) - namesWeight*float64(e.Names)
	if e.Negated {
		e.Score -= negatedWeight
	}
	return e, true, nil
}

// missing counts the numbers and names of a question that stand in no passage. In German, where all nouns have a
// capital, names are not counted.
func missing(question, language string, passages []string) (numbers, names int) {
	has := map[string]bool{}
	for _, p := range passages {
		for word := range words(p) {
			has[strings.ToLower(word)] = true
		}
	}
	first := true
	for word := range words(question) {
		key := strings.ToLower(word)
		switch {
		case has[key] || has[strings.TrimSuffix(key, "s")]:
		case unicode.IsNumber([]rune(word)[0]):
			numbers++
		case !first && unicode.IsUpper([]rune(word)[0]) && language != "de":
			names++
		}
		first = false
	}
	return numbers, names
}

// words yields the words of a text. Numbers keep the points and commas within them.
func words(text string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for field := range strings.FieldsSeq(text) {
			for word := range strings.FieldsFuncSeq(field, func(r rune) bool {
				return !unicode.IsLetter(r) && !unicode.IsNumber(r) && r != '.' && r != ','
			}) {
				for _, part := range parted(strings.Trim(word, ".,")) {
					if !yield(part) {
						return
					}
				}
			}
		}
	}
}

// parted separates the parts of a word at points and commas, unless it begins as a number.
func parted(word string) []string {
	if word == "" || unicode.IsNumber([]rune(word)[0]) {
		return slices.DeleteFunc([]string{word}, func(s string) bool { return s == "" })
	}
	return strings.FieldsFunc(word, func(r rune) bool { return r == '.' || r == ',' })
}

// negated reports whether a text in English or German denies something.
func negated(text string) bool {
	for word := range strings.FieldsFuncSeq(strings.ToLower(text),
		func(r rune) bool { return !unicode.IsLetter(r) && r != '\'' && r != '’' }) {
		switch word {
		case "not", "never", "no", "cannot", "nicht", "nie", "niemals", "kein", "keine", "keinen", "keinem", "keiner",
			"keines":
			return true
		}
		if strings.HasSuffix(word, "n't") || strings.HasSuffix(word, "n’t") {
			return true
		}
	}
	return false
}
