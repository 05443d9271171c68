package gate

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"
)

// TestFit compares the regression with scikit-learn's (testdata/logistic.py).
func TestFit(t *testing.T) {
	text, err := os.ReadFile("testdata/logistic.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Inside, Outside        [][]float64
		Intercept              float64
		Weights, Probabilities []float64
	}
	if err := json.Unmarshal(text, &golden); err != nil {
		t.Fatal(err)
	}
	all := examples(golden.Inside, golden.Outside)
	m, again := fit(all, make(model, 6)), fit(all, model{3, -2, 0, 0, 0, 5})
	for k, w := range again {
		if math.Abs(w-m[k]) > 1e-9 {
			t.Errorf("weight %d is %v, from another start %v", k, m[k], w)
		}
	}
	for k, want := range append([]float64{golden.Intercept}, golden.Weights...) {
		if math.Abs(m[k]-want) > 1e-6 {
			t.Errorf("weight %d is %v, want %v", k, m[k], want)
		}
	}
	n := len(golden.Inside)
	for i, e := range append(slices.Clone(all[:3]), all[n:n+len(golden.Probabilities)-3]...) {
		if p := m.probability(e.x); math.Abs(p-golden.Probabilities[i]) > 1e-6 {
			t.Errorf("probability %d is %v, want %v", i, p, golden.Probabilities[i])
		}
	}
}

func examples(inside, outside [][]float64) (all []example) {
	for _, f := range inside {
		all = append(all, example{append([]float64{1}, f...), true})
	}
	for _, f := range outside {
		all = append(all, example{append([]float64{1}, f...), false})
	}
	return all
}

// TestFitOfWhatIsParted: questions that a single feature parts have finite weights.
func TestFitOfWhatIsParted(t *testing.T) {
	m := fit(examples([][]float64{{1, 1}, {.9, .8}}, [][]float64{{-1, 0}, {-1, -1}}), make(model, 3))
	good, bad := m.probability([]float64{1, 1, 1}), m.probability([]float64{1, -1, -1})
	if !finite(m[0]+m[1]+m[2]) || good <= bad {
		t.Errorf("%v: %v and %v", m, good, bad)
	}
	same := fit(examples([][]float64{{0}}, [][]float64{{0}}), make(model, 2))
	if p := same.probability([]float64{1, 0}); !finite(same[1]) || math.Abs(p-.5) > 1e-9 {
		t.Errorf("%v: %v", same, p)
	}
}
