package metric

import (
	"fmt"
	"math"
	"regexp"
	"strings"
)

// bleuOrder is the longest n-gram of BLEU.
const bleuOrder = 4

// BLEU counts what BLEU is made of (Papineni et al. 2002), as sacrebleu does by default: tokens as mteval-v13a makes
// them, case kept, counts clipped by the reference that has most of an n-gram, the reference length nearest to the
// text's. The zero value has seen nothing.
type BLEU struct {
	correct, total [bleuOrder]int
	length, ref    int
}

// Add adds a text and its references, at least one.
func (b *BLEU) Add(text string, references []string) error {
	if len(references) == 0 {
		return fmt.Errorf("%w: no reference", ErrPairs)
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
	b.length += len(got)
	b.ref += nearest
	for n := 1; n <= bleuOrder; n++ {
		for g, k := range ngrams(got, n) {
			b.total[n-1] += k
			b.correct[n-1] += min(k, most[g])
		}
	}
	return nil
}

// Corpus returns BLEU of all that was added, 0 … 100: the geometric mean of the four precisions, where the i-th one
// without a match counts as 2^−i of one match (sacrebleu's smoothing "exp"), times the brevity penalty.
func (b *BLEU) Corpus() float64 { return b.score(false) }

// SentenceBLEU returns BLEU of one text, 0 … 100, over the orders of n-grams that it is long enough for (sacrebleu's
// sentence_bleu, with effective_order).
func SentenceBLEU(text string, references []string) (float64, error) {
	var b BLEU
	if err := b.Add(text, references); err != nil {
		return 0, err
	}
	return b.score(true), nil
}

func (b *BLEU) score(effective bool) float64 {
	if b.correct == [bleuOrder]int{} {
		return 0
	}
	var logs float64
	smooth, orders := 1.0, 0
	for n := range bleuOrder {
		if b.total[n] == 0 {
			if !effective {
				return 0
			}
			break
		}
		orders++
		correct := float64(b.correct[n])
		if b.correct[n] == 0 {
			smooth *= 2
			correct = 1 / smooth
		}
		logs += math.Log(100 * correct / float64(b.total[n]))
	}
	brevity := 1.0
	if b.length < b.ref {
		brevity = math.Exp(1 - float64(b.ref)/float64(b.length))
	}
	return brevity * math.Exp(logs/float64(orders))
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

var (
	rules13a = []struct {
		expression *regexp.Regexp
		by         string
	}{
		{regexp.MustCompile("([{-~\\[-` -&(-+:-@/])"), " $1 "}, // punctuation but . , - '
		{regexp.MustCompile(`([^0-9])([.,])`), "$1 $2 "},       // . and , unless after a digit
		{regexp.MustCompile(`([.,])([^0-9])`), " $1 $2"},       // . and , unless before a digit
		{regexp.MustCompile(`([0-9])(-)`), "$1 $2 "},           // - after a digit
	}
)

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
