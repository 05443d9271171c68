package metric

import (
	"strings"
	"unicode"
)

// answerTokens returns an answer as SQuAD's evaluation reads it: lower case, without ASCII punctuation and the articles
// a, an, the, split at white space.
func answerTokens(s string) []string {
	s = strings.Map(func(r rune) rune {
		if r < unicode.MaxASCII && (unicode.IsPunct(r) || unicode.IsSymbol(r)) {
			return -1
		}
		return r
	}, strings.ToLower(s))
	s = replaceArticles(s)
	return strings.Fields(s)
}

// replaceArticles replaces each article that is a whole word by a space, as the expression \b(a|an|the)\b does.
func replaceArticles(s string) string {
	var b strings.Builder
	var word []rune
	flush := func() {
		switch w := string(word); w {
		case "a", "an", "the":
			b.WriteByte(' ')
		default:
			b.WriteString(w)
		}
		word = word[:0]
	}
	for _, r := range s {
		if r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) {
			word = append(word, r)
			continue
		}
		flush()
		b.WriteRune(r)
	}
	flush()
	return b.String()
}

// ExactMatch returns 1 if an answer equals one of the true ones after SQuAD's normalisation, else 0. An empty list of
// true answers means that the question has none: then the empty answer is right.
func ExactMatch(answer string, truths []string) float64 {
	got := strings.Join(answerTokens(answer), " ")
	for _, t := range orEmpty(truths) {
		if got == strings.Join(answerTokens(t), " ") {
			return 1
		}
	}
	return 0
}

// TokenF1 returns the best F1 of an answer's tokens against a true answer's, after SQuAD's normalisation. Truths is as
// in ExactMatch.
func TokenF1(answer string, truths []string) (best float64) {
	got := answerTokens(answer)
	for _, t := range orEmpty(truths) {
		want := answerTokens(t)
		if len(got) == 0 || len(want) == 0 {
			if len(got) == len(want) {
				return 1
			}
			continue
		}
		best = max(best, prf(overlap(counts(got), counts(want)), len(got), len(want)).F1)
	}
	return best
}

func orEmpty(truths []string) []string {
	if len(truths) == 0 {
		return []string{""}
	}
	return truths
}

func counts(tokens []string) map[string]int {
	c := make(map[string]int, len(tokens))
	for _, t := range tokens {
		c[t]++
	}
	return c
}

// overlap is how many tokens two bags have in common.
func overlap(a, b map[string]int) (n int) {
	for t, k := range a {
		n += min(k, b[t])
	}
	return n
}
