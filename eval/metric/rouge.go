package metric

import "strings"

// Rouge is ROUGE of a text and a reference (Lin 2004), as the package rouge-score computes it.
type Rouge struct {
	One  PRF `json:"rouge1"`
	Two  PRF `json:"rouge2"`
	L    PRF `json:"rougeL"`    // longest common subsequence of the texts
	LSum PRF `json:"rougeLsum"` // union over their lines
}

// ROUGE compares a text with a reference by their runs of ASCII letters and digits in lower case; with stem, runs of
// more than three characters are replaced by their Porter stems.
func ROUGE(text, reference string, stem bool) Rouge {
	got, want := rougeTokens(text, stem), rougeTokens(reference, stem)
	lcs := 0
	if len(got) > 0 && len(want) > 0 {
		lcs = table(want, got).at(len(want), len(got))
	}
	return Rouge{
		One: rougeN(got, want, 1), Two: rougeN(got, want, 2),
		L: prf(lcs, len(got), len(want)), LSum: rougeLSum(text, reference, stem),
	}
}

// BestROUGE is, of each kind, that with the reference of best F1.
func BestROUGE(text string, references []string, stem bool) (best Rouge) {
	better := func(a *PRF, b PRF) {
		if b.F1 > a.F1 {
			*a = b
		}
	}
	for i, r := range references {
		x := ROUGE(text, r, stem)
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
	return prf(overlap(ngrams(got, n), ngrams(want, n)), max(len(got)-n+1, 0), max(len(want)-n+1, 0))
}

func rougeTokens(s string, stem bool) []string {
	words := strings.FieldsFunc(strings.ToLower(s), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	for i, w := range words {
		if stem && len(w) > 3 {
			words[i] = Porter(w)
		}
	}
	return words
}

// rougeLSum compares texts line by line: the tokens of a reference's line that are in its longest common subsequence
// with any line of the text, no token counted more often than either text has it.
func rougeLSum(text, reference string, stem bool) PRF {
	got, want := rougeLines(text, stem), rougeLines(reference, stem)
	left, right := map[string]int{}, map[string]int{}
	predicted, actual, hits := 0, 0, 0
	for _, l := range got {
		predicted += len(l)
		for _, t := range l {
			left[t]++
		}
	}
	for _, l := range want {
		actual += len(l)
		for _, t := range l {
			right[t]++
		}
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

func rougeLines(s string, stem bool) (lines [][]string) {
	for l := range strings.SplitSeq(s, "\n") {
		lines = append(lines, rougeTokens(l, stem))
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
