package metric

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/sluice-rag/sluice/kernels/ref"
)

// Score is the value of one item, or the reason why it has none.
type Score struct {
	Value    float64 `json:"value"`
	Unscored string  `json:"unscored,omitempty"`
}

// Of returns a value; NaN and the infinities are unscored.
func Of(v float64) Score {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return Score{Unscored: fmt.Sprintf("the value is %v", v)}
	}
	return Score{Value: v}
}

// Summary of the scores of items.
type Summary struct {
	N        int     `json:"n"`        // items with a value
	Unscored int     `json:"unscored"` // items without
	Mean     float64 `json:"mean"`     // 0 for N = 0
	Low      float64 `json:"low"`      // 95 % interval of the mean, by bootstrap over items
	High     float64 `json:"high"`
	P50      float64 `json:"p50"`
	P95      float64 `json:"p95"`
}

// Constant is the summary of n items that all have one value.
func Constant(n int, v float64) Summary {
	return Summary{N: n, Mean: v, Low: v, High: v, P50: v, P95: v}
}

// resamples of the bootstrap.
const resamples = 1000

// Summarise returns the summary of scores; the interval comes from a seeded bootstrap, so equal scores have equal ones.
func Summarise(scores []Score) (s Summary) {
	var values []float64
	for _, x := range scores {
		if x.Unscored != "" {
			s.Unscored++
			continue
		}
		values = append(values, x.Value)
	}
	if s.N = len(values); s.N == 0 {
		return s
	}
	s.Mean = mean(values)
	s.Low, s.High = Bootstrap(s.N, func(rows []int) float64 {
		var sum float64
		for _, i := range rows {
			sum += values[i]
		}
		return sum / float64(len(rows))
	})
	slices.Sort(values)
	s.P50, s.P95 = ref.Quantile7(values, .5), ref.Quantile7(values, .95)
	return s
}

// Balanced returns the summary of the mean of two groups' means: of decisions that are right, balanced accuracy.
func Balanced(first, second []Score) (s Summary) {
	var values []float64
	last := 0 // of the first group
	for i, x := range slices.Concat(first, second) {
		if x.Unscored != "" {
			s.Unscored++
			continue
		}
		if values = append(values, x.Value); i < len(first) {
			last = len(values)
		}
	}
	if last == 0 || last == len(values) {
		return s
	}
	s.N, s.Mean = len(values), (mean(values[:last])+mean(values[last:]))/2
	s.Low, s.High = Bootstrap(s.N, func(rows []int) float64 {
		var sum, n [2]float64
		for _, i := range rows {
			group := 0
			if i >= last {
				group = 1
			}
			sum[group], n[group] = sum[group]+values[i], n[group]+1
		}
		return (sum[0]/max(n[0], 1) + sum[1]/max(n[1], 1)) / 2
	})
	s.P50, s.P95 = s.Mean, s.Mean
	return s
}

// Bootstrap returns the 95 % percentile interval of a statistic of n items: it is computed of 1000 samples of n rows,
// drawn with replacement under a fixed seed.
func Bootstrap(n int, statistic func(rows []int) float64) (low, high float64) {
	random := rand.New(rand.NewPCG(uint64(n), 1))
	rows, all := make([]int, n), make([]float64, resamples)
	for b := range all {
		for i := range rows {
			rows[i] = random.IntN(n)
		}
		all[b] = statistic(rows)
	}
	slices.Sort(all)
	return ref.Quantile7(all, .025), ref.Quantile7(all, .975)
}

func mean(values []float64) (m float64) {
	for _, v := range values {
		m += v
	}
	return m / float64(len(values))
}
