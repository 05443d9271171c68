// Package squad has the measures of extractive question answering, as SQuAD defines them (Rajpurkar et al. 2016;
// Rajpurkar, Jia and Liang 2018).
package squad

import (
	"slices"
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

// F1 returns the best F1 of an answer's tokens against a true answer's, after SQuAD's normalisation. Truths is as
// in ExactMatch.
func F1(answer string, truths []string) (best float64) {
	got := answerTokens(answer)
	for _, t := range orEmpty(truths) {
		want := answerTokens(t)
		if len(got) == 0 || len(want) == 0 {
			if len(got) == len(want) {
				return 1
			}
			continue
		}
		best = max(best, 2*float64(common(got, want))/float64(len(got)+len(want)))
	}
	return best
}

func orEmpty(truths []string) []string {
	if len(truths) == 0 {
		return []string{""}
	}
	return truths
}

// common counts the tokens that two lists share, each as often as it stands in both.
func common(a, b []string) (n int) {
	left := map[string]int{}
	for _, t := range a {
		left[t]++
	}
	for _, t := range b {
		if left[t] > 0 {
			left[t]--
			n++
		}
	}
	return n
}

// AUROC returns the probability that a positive scores above a negative, ties counted half (the Mann–Whitney statistic
// divided by its maximum); 0 without positives or negatives.
func AUROC(positive, negative []float64) float64 {
	if len(positive) == 0 || len(negative) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(negative))
	var below float64
	for _, p := range positive {
		low, _ := slices.BinarySearch(sorted, p)
		high := low
		for high < len(sorted) && sorted[high] == p {
			high++
		}
		below += float64(low) + float64(high-low)/2
	}
	return below / float64(len(positive)) / float64(len(negative))
}
