package metric

import (
	"errors"
	"fmt"
	"maps"
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
	Accuracy float64
	Weighted PRF     // means over the labels, weighted by how often one is the true one
	Kappa    float64 // Cohen's: agreement beyond chance, 1 at most, 0 or less for none
}

// Compare makes Classes of predicted labels and the true ones.
func Compare(truth, predicted []string) (c Classes, err error) {
	if len(truth) != len(predicted) || len(truth) == 0 {
		return c, fmt.Errorf("%w: %d true labels, %d predicted", ErrPairs, len(truth), len(predicted))
	}
	actual, guessed, right := map[string]int{}, map[string]int{}, map[string]int{}
	for i, label := range truth {
		actual[label]++
		guessed[predicted[i]]++
		if predicted[i] == label {
			right[label]++
		}
	}
	total, correct, chance := len(truth), 0, 0.
	for _, label := range slices.Sorted(maps.Keys(actual)) { // so that sums have the same bits
		share := ratio(actual[label], total)
		correct += right[label]
		chance += share * ratio(guessed[label], total)
		c.Weighted = c.Weighted.plus(prf(right[label], guessed[label], actual[label]), share)
	}
	c.Accuracy = ratio(correct, total)
	if c.Kappa = 1; chance < 1 {
		c.Kappa = (c.Accuracy - chance) / (1 - chance)
	}
	return c, nil
}

func (x PRF) plus(y PRF, w float64) PRF {
	return PRF{x.Precision + w*y.Precision, x.Recall + w*y.Recall, x.F1 + w*y.F1}
}
