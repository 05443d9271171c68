package metric

import (
	"fmt"
	"math"
	"regexp"
	"strings"
)

// bleuOrder is the longest n-gram of BLEU.
const bleuOrder = 4

// SentenceBLEU returns BLEU of one text and its references, of which there must be one at least, 0 … 100 (Papineni et
// al. 2002), as sacrebleu's sentence_bleu does by default: tokens as mteval-v13a makes them, case kept, counts clipped
// by the reference that has most of an n-gram, the reference length nearest to the text's. It is the geometric mean of
// the precisions for the orders of n-grams that the text is long enough for, where the i-th one without a match counts
// as 2^−i of one match (smoothing "exp"), times the brevity penalty.
func SentenceBLEU(text string, references []string) (float64, error) {
	if len(references) == 0 {
		return 0, fmt.Errorf("%w: no reference", ErrPairs)
	}
	got := tokens13a(text)
	most, nearest := map[string]int{}, -1
	for _, r := range references {
		want := tokens13a(r)
		for n := 1; n <= bleuOrder; n++ {
			for g, k := range ngrams(want, n) {
				most[g] = max(most[g], k)
			}
		}
		far, best := abs(len(want)-len(got)), abs(nearest-len(got))
		if nearest < 0 || far < best || far == best && len(want) < nearest {
			nearest = len(want)
		}
	}
	logs, smooth, matches := 0.0, 1.0, 0
	orders := min(bleuOrder, len(got))
	for n := 1; n <= orders; n++ {
		matching := 0
		for g, k := range ngrams(got, n) {
			matching += min(k, most[g])
		}
		matches += matching
		precision := float64(matching)
		if matching == 0 {
			smooth *= 2
			precision = 1 / smooth
		}
		logs += math.Log(100 * precision / float64(len(got)-n+1))
	}
	if matches == 0 {
		return 0, nil
	}
	brevity := min(1, math.Exp(1-float64(nearest)/float64(len(got))))
	return brevity * math.Exp(logs/float64(orders)), nil
}

// ngrams counts the n-grams of tokens, which hold no space.
func ngrams(tokens []string, n int) map[string]int {
	c := map[string]int{}
	for i := 0; i+n <= len(tokens); i++ {
		c[strings.Join(tokens[i:i+n], " ")]++
	}
	return c
}

func abs(x int) int { return max(x, -x) }

var rules13a = []struct {
	expression *regexp.Regexp
	by         string
}{
	{regexp.MustCompile("([{-~\\[-` -&(-+:-@/])"), " $1 "}, // punctuation but . , - '
	{regexp.MustCompile(`([^0-9])([.,])`), "$1 $2 "},       // . and , unless after a digit
	{regexp.MustCompile(`([.,])([^0-9])`), " $1 $2"},       // . and , unless before a digit
	{regexp.MustCompile(`([0-9])(-)`), "$1 $2 "},           // - after a digit
}

// tokens13a splits a text as mteval-v13a does, WMT's tokenizer for Western languages.
func tokens13a(s string) []string {
	s = strings.ReplaceAll(strings.TrimSpace(s), "<skipped>", "")
	s = strings.ReplaceAll(strings.ReplaceAll(s, "-\n", ""), "\n", " ")
	for _, e := range [][2]string{{"&quot;", `"`}, {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}} { // in this order
		s = strings.ReplaceAll(s, e[0], e[1])
	}
	s = " " + s + " "
	for _, r := range rules13a {
		s = r.expression.ReplaceAllString(s, r.by)
	}
	return strings.Fields(s)
}
