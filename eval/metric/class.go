package metric

import (
	"errors"
	"fmt"
	"slices"
)

// ErrPairs: two lists that belong together differ in length, or are empty.
var ErrPairs = errors.New("metric: lists of different length")

// PRF is a precision, a recall and their harmonic mean. What has no denominator is 0, as in scikit-learn with
// zero_division=0.
type PRF struct {
	Precision float64 `json:"precision"`
	Recall    float64 `json:"recall"`
	F1        float64 `json:"f1"`
}

func prf(correct, predicted, actual int) PRF {
	p, r := ratio(correct, predicted), ratio(correct, actual)
	return PRF{p, r, harmonic(p, r)}
}

func harmonic(p, r float64) float64 {
	if p+r == 0 {
		return 0
	}
	return 2 * p * r / (p + r)
}

// Classes compares labels with the true ones.
type Classes struct {
	Labels    []string `json:"labels"`    // of both, sorted
	Confusion [][]int  `json:"confusion"` // rows are true labels, columns predicted ones
	Accuracy  float64  `json:"accuracy"`
	Balanced  float64  `json:"balanced_accuracy"` // mean recall of the true labels
	Each      []PRF    `json:"each"`              // of Labels
	Macro     PRF      `json:"macro"`             // means over Labels
	Weighted  PRF      `json:"weighted"`          // means weighted by how often a label is the true one
	Kappa     float64  `json:"kappa"`             // Cohen's: agreement beyond chance, 1 at most, 0 or less for none
}

// Compare makes Classes of predicted labels and the true ones.
func Compare(truth, predicted []string) (*Classes, error) {
	if len(truth) != len(predicted) || len(truth) == 0 {
		return nil, fmt.Errorf("%w: %d true labels, %d predicted", ErrPairs, len(truth), len(predicted))
	}
	c := &Classes{Labels: slices.Compact(slices.Sorted(slices.Values(slices.Concat(truth, predicted))))}
	n := len(c.Labels)
	at := make(map[string]int, n)
	for i, l := range c.Labels {
		at[l] = i
		c.Confusion = append(c.Confusion, make([]int, n))
	}
	for i := range truth {
		c.Confusion[at[truth[i]]][at[predicted[i]]]++
	}
	total, correct, present := len(truth), 0, 0
	var chance float64
	for i := range n {
		actual, guessed := 0, 0
		for j := range n {
			actual += c.Confusion[i][j]
			guessed += c.Confusion[j][i]
		}
		right := c.Confusion[i][i]
		correct += right
		chance += ratio(actual, total) * ratio(guessed, total)
		x, w := prf(right, guessed, actual), ratio(actual, total)
		c.Each = append(c.Each, x)
		c.Macro = c.Macro.plus(x, 1/float64(n))
		c.Weighted = c.Weighted.plus(x, w)
		if actual > 0 {
			present++
			c.Balanced += x.Recall
		}
	}
	c.Accuracy, c.Balanced = ratio(correct, total), c.Balanced/float64(present)
	if c.Kappa = 1; chance < 1 {
		c.Kappa = (c.Accuracy - chance) / (1 - chance)
	}
	return c, nil
}

func (x PRF) plus(y PRF, w float64) PRF {
	return PRF{x.Precision + w*y.Precision, x.Recall + w*y.Recall, x.F1 + w*y.F1}
}
