package metric

import (
	"slices"
	"strings"
)

// Rouge is ROUGE of a text and a reference (Lin 2004), as the package rouge-score computes it.
type Rouge struct {
	One  PRF `json:"rouge1"`
	Two  PRF `json:"rouge2"`
	L    PRF `json:"rougeL"`    // longest common subsequence of the texts
	LSum PRF `json:"rougeLsum"` // union over their lines
}

// ROUGE compares a text with a reference by their runs of ASCII letters and digits in lower case.
func ROUGE(text, reference string) Rouge {
	got, want := rougeTokens(text), rougeTokens(reference)
	lcs := 0
	if len(got) > 0 && len(want) > 0 {
		lcs = table(want, got).at(len(want), len(got))
	}
	return Rouge{
		One: rougeN(got, want, 1), Two: rougeN(got, want, 2),
		L: prf(lcs, len(got), len(want)), LSum: rougeLSum(text, reference),
	}
}

// BestROUGE is, of each kind, that with the reference of best F1.
func BestROUGE(text string, references []string) (best Rouge) {
	better := func(a *PRF, b PRF) {
		if b.F1 > a.F1 {
			*a = b
		}
	}
	for i, r := range references {
		x := ROUGE(text, r)
		if i == 0 {
			best = x
			continue
		}
		better(&best.One, x.One)
		better(&best.Two, x.Two)
		better(&best.L, x.L)
		better(&best.LSum, x.LSum)
	}
	return best
}

func rougeN(got, want []string, n int) PRF {
	shared, of := 0, ngrams(want, n)
	for g, k := range ngrams(got, n) {
		shared += min(k, of[g])
	}
	return prf(shared, max(len(got)-n+1, 0), max(len(want)-n+1, 0))
}

func rougeTokens(s string) []string {
	return strings.FieldsFunc(strings.ToLower(s), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
}

// rougeLSum compares texts line by line: the tokens of a reference's line that are in its longest common subsequence
// with any line of the text, no token counted more often than either text has it.
func rougeLSum(text, reference string) PRF {
	got, want := rougeLines(text), rougeLines(reference)
	left, right := map[string]int{}, map[string]int{}
	predicted, actual, hits := 0, 0, 0
	for _, t := range slices.Concat(got...) {
		predicted++
		left[t]++
	}
	for _, t := range slices.Concat(want...) {
		actual++
		right[t]++
	}
	for _, l := range want {
		in := make([]bool, len(l))
		for _, other := range got {
			table(l, other).mark(l, other, in)
		}
		for i, t := range l {
			if in[i] && left[t] > 0 && right[t] > 0 {
				hits++
				left[t]--
				right[t]--
			}
		}
	}
	return prf(hits, predicted, actual)
}

func rougeLines(s string) (lines [][]string) {
	for l := range strings.SplitSeq(s, "\n") {
		lines = append(lines, rougeTokens(l))
	}
	return lines
}

// lcs is the table of the lengths of longest common subsequences of two beginnings.
type lcs struct {
	cells []int32
	width int
}

func (t lcs) at(i, j int) int { return int(t.cells[i*t.width+j]) }

func table(a, b []string) lcs {
	t := lcs{make([]int32, (len(a)+1)*(len(b)+1)), len(b) + 1}
	for i := range a {
		for j := range b {
			v := max(t.at(i, j+1), t.at(i+1, j))
			if a[i] == b[j] {
				v = t.at(i, j) + 1
			}
			t.cells[(i+1)*t.width+j+1] = int32(v)
		}
	}
	return t
}

// mark sets in for the tokens of a in one longest common subsequence.
func (t lcs) mark(a, b []string, in []bool) {
	for i, j := len(a), len(b); i > 0 && j > 0; {
		switch {
		case a[i-1] == b[j-1]:
			in[i-1] = true
			i, j = i-1, j-1
		case t.at(i, j-1) > t.at(i-1, j):
			j--
		default:
			i--
		}
	}
}
