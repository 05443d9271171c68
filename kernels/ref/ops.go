package ref

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/sluice-rag/sluice/kernels"
)

// Hit is a row and its canonical, biased score.
type Hit struct {
	Row   int
	Score float64
}

// Matrix returns the score matrix of the rows of a and b.
func Matrix(m kernels.Metric, a, b [][]float32) [][]float64 {
	out := make([][]float64, len(a))
	for i := range a {
		out[i] = make([]float64, len(b))
		for j := range b {
			out[i][j] = Score(m, a[i], b[j])
		}
	}
	return out
}

// TopK sorts all rows of c by better score, then lower row, and returns the first k; bias[row], by default 0, is added
// to the closeness.
func TopK(m kernels.Metric, q []float32, c [][]float32, bias map[int]float64, k int) []Hit {
	hits := make([]Hit, len(c))
	for i := range c {
		hits[i] = Hit{Row: i, Score: m.Biased(Score(m, q, c[i]), bias[i])}
	}
	sort.Slice(hits, func(i, j int) bool {
		if hits[i].Score != hits[j].Score {
			return m.Better(hits[i].Score, hits[j].Score)
		}
		return hits[i].Row < hits[j].Row
	})
	return hits[:min(k, len(hits))]
}

// Max returns the first of TopK; ok is false if c is empty.
func Max(m kernels.Metric, q []float32, c [][]float32, bias map[int]float64) (best Hit, ok bool) {
	if len(c) == 0 {
		return Hit{}, false
	}
	return TopK(m, q, c, bias, 1)[0], true
}

// AnyAbove returns the lowest row whose biased score is strictly better than tau.
func AnyAbove(m kernels.Metric, q []float32, c [][]float32, bias map[int]float64, tau float64) (witness Hit,
	above bool) {
	for i := range c {
		if s := m.Biased(Score(m, q, c[i]), bias[i]); m.Better(s, tau) {
			return Hit{Row: i, Score: s}, true
		}
	}
	return Hit{}, false
}

// Pair is one scored (query row, context row).
type Pair struct {
	Query, Context int32
	Score          float64
}

// Pairs lists the pairs for which take is true, query by query, contexts in order.
func Pairs(m kernels.Metric, contexts, queries [][]float32, take func(query, context int) bool) []Pair {
	var pairs []Pair
	for q := range queries {
		for c := range contexts {
			if take(q, c) {
				pairs = append(pairs, Pair{int32(q), int32(c), Score(m, queries[q], contexts[c])})
			}
		}
	}
	return pairs
}

// Best returns the best of each query's pairs (the lower context on ties); a query without pairs gets context −1 and
// the metric's worst score.
func Best(m kernels.Metric, pairs []Pair, queries int) []Pair {
	best := make([]Pair, queries)
	for q := range best {
		best[q] = Pair{int32(q), -1, m.Worst()}
	}
	for _, p := range pairs {
		if b := &best[p.Query]; b.Context < 0 || m.Better(p.Score, b.Score) {
			*b = p
		}
	}
	return best
}

// Summary describes a list of scored pairs. For an empty list all numbers are 0 and the pairs are −1.
type Summary struct {
	N         int64
	Min, Max  Pair // by value; the first in order on ties
	Mean, Std float64
	Quantiles []float64
}

// Summarise computes the summary. Mean and Std have a fixed order of summation: with x0 the first score, each query's
// Σ(x−x0) and Σ(x−x0)² run over its pairs in order, the queries' sums are added in order, Mean = x0 + S1/N and Std =
// √max(0, S2/N − (S1/N)²), the population standard deviation. The shift avoids cancellation in distributions far from
// 0.
func Summarise(pairs []Pair, quantiles []float64) Summary {
	s := Summary{N: int64(len(pairs)), Quantiles: make([]float64, len(quantiles))}
	s.Min, s.Max = Pair{-1, -1, 0}, Pair{-1, -1, 0}
	if len(pairs) == 0 {
		return s
	}
	s.Min, s.Max = pairs[0], pairs[0]
	x0, values := pairs[0].Score, make([]float64, len(pairs))
	var s1, s2, q1, q2 float64
	for i, p := range pairs {
		if i > 0 && p.Query != pairs[i-1].Query {
			s1, s2, q1, q2 = s1+q1, s2+q2, 0, 0
		}
		d := p.Score - x0
		q1 += d
		q2 += float64(d * d)
		values[i] = p.Score
		if p.Score < s.Min.Score {
			s.Min = p
		}
		if p.Score > s.Max.Score {
			s.Max = p
		}
	}
	s.Mean, s.Std = Moments(s.N, x0, s1+q1, s2+q2)
	sort.Float64s(values)
	for i, p := range quantiles {
		s.Quantiles[i] = Quantile7(values, p)
	}
	return s
}

// Moments returns mean and population standard deviation from n, the shift x0 and the shifted sums.
func Moments(n int64, x0, s1, s2 float64) (mean, std float64) {
	shift := s1 / float64(n)
	variance := s2/float64(n) - float64(shift*shift)
	return x0 + shift, math.Sqrt(max(variance, 0))
}

// Separation is the Mann–Whitney probability that a positive is closer than a negative, with ties counted as half; 0 if
// either side is empty.
func Separation(m kernels.Metric, positive, negative []Pair) float64 {
	if len(positive) == 0 || len(negative) == 0 {
		return 0
	}
	var twice int64
	for _, p := range positive {
		for _, n := range negative {
			switch {
			case m.Better(p.Score, n.Score):
				twice += 2
			case p.Score == n.Score:
				twice++
			}
		}
	}
	return float64(twice) / 2 / (float64(len(positive)) * float64(len(negative)))
}

// Histogram counts the pairs in equal bins between their minimum and maximum (Bin).
func Histogram(pairs []Pair, bins int) []int64 {
	counts, s := make([]int64, bins), Summarise(pairs, nil)
	for _, p := range pairs {
		counts[Bin(p.Score, s.Min.Score, s.Max.Score, bins)]++
	}
	return counts
}

// Bin is ⌊(x−low)/(high−low)·bins⌋, with x = high in the last bin; if low = high, all values are in bin 0.
func Bin(x, low, high float64, bins int) int {
	if high <= low {
		return 0
	}
	return min(int((x-low)/(high-low)*float64(bins)), bins-1)
}

// Foreign draws perQuery contexts other than the owner for one query, without replacement and in ascending order; all
// of them if there are no more than perQuery. The draw depends only on seed, query, owner and contexts: Floyd's
// algorithm (Bentley & Floyd, "A sample of brilliance", CACM 1987) on the query's own PCG stream (seed, query).
func Foreign(into []int32, seed uint64, query, owner, contexts, perQuery int) []int32 {
	into = into[:0]
	foreign := contexts - 1
	stream := rand.NewPCG(seed, uint64(query))
	perQuery = min(perQuery, foreign)
	seen := make(map[int32]struct{}, perQuery)
	for j := foreign - perQuery; j < foreign; j++ {
		pick := int32(uniform(stream, uint64(j)+1))
		if _, dup := seen[pick]; dup {
			pick = int32(j)
		}
		seen[pick] = struct{}{}
		into = append(into, pick)
	}
	for i, c := range into {
		if int(c) >= owner {
			into[i] = c + 1
		}
	}
	slices.Sort(into)
	return into
}

// uniform returns an unbiased integer below n (Lemire, "Fast random integer generation in an interval", 2019).
func uniform(stream *rand.PCG, n uint64) uint64 {
	for {
		high, low := bits.Mul64(stream.Uint64(), n)
		if low >= -n%n {
			return high
		}
	}
}
