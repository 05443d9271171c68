// Package ref is the reference of all kernels: the canonical scores of design section 3 and a naive algorithm for every
// operation, in plain Go. It prefers clarity to speed; the only production code that runs it is the fallback of
// kernels/cpu where there is no C compiler.
//
// Every product and difference is converted explicitly (float64(x*y)): Go may otherwise fuse x*y+z on some
// architectures, and a fused square of differences has other bits.
package ref

import (
	"math"

	"github.com/sluice-rag/sluice/kernels"
)

// Dot is the canonical a·b: eight float64 lanes, lane l adds a_i·b_i for i ≡ l (mod 8) in order, then
// ((l0+l4)+(l2+l6)) + ((l1+l5)+(l3+l7)). No finite input overflows or underflows: a product of two
// float32 lies between 2^-298 and 2^256.
func Dot(a, b []float32) float64 {
	var lane [8]float64
	for i, x := range a {
		lane[i%8] += float64(float64(x) * float64(b[i]))
	}
	return fold(&lane)
}

// Distance is the canonical ‖a − b‖: differences in float64, their rounded squares in Dot's lanes.
func Distance(a, b []float32) float64 {
	var lane [8]float64
	for i, x := range a {
		d := float64(x) - float64(b[i])
		lane[i%8] += float64(d * d)
	}
	return math.Sqrt(fold(&lane))
}

// Norm is the canonical ‖a‖ = √(a·a).
func Norm(a []float32) float64 { return math.Sqrt(Dot(a, a)) }

// Cosine is dot/(normA·normB) clamped to [−1, 1], and 0 where a norm is 0.
func Cosine(dot, normA, normB float64) float64 {
	norms := normA * normB
	if norms == 0 {
		return 0
	}
	s := dot / norms
	if s > 1 {
		return 1
	}
	if s < -1 {
		return -1
	}
	return s
}

// Score is the canonical score of two vectors of equal length.
func Score(m kernels.Metric, a, b []float32) float64 {
	switch m {
	case kernels.L2:
		return Distance(a, b)
	case kernels.IP:
		return Dot(a, b)
	default:
		return Cosine(Dot(a, b), Norm(a), Norm(b))
	}
}

func fold(l *[8]float64) float64 {
	return ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]))
}

// Quantile7 returns the p-quantile, p in [0, 1], of values in ascending order: with h = (n−1)·p and f its fraction,
// x_⌊h⌋ + f·(x_⌊h⌋+1 − x_⌊h⌋). Type 7 of Hyndman & Fan, "Sample quantiles in statistical packages" (1996), NumPy's
// default. For no values it is 0.
func Quantile7(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	rank, f := Rank7(int64(len(sorted)), p)
	if f == 0 {
		return sorted[rank]
	}
	return Interpolate7(sorted[rank], sorted[rank+1], f)
}

// Rank7 splits the position (n−1)·p into the lower rank and the fraction; f > 0 implies rank+1 < n.
func Rank7(n int64, p float64) (rank int64, f float64) {
	h := float64(float64(n-1) * p) // not fused with the subtraction below
	low := math.Floor(h)
	if rank = int64(low); rank >= n-1 {
		return n - 1, 0
	}
	return rank, h - low
}

// Interpolate7 returns low + f·(high − low), rounded after each operation.
func Interpolate7(low, high, f float64) float64 { return low + float64(f*(high-low)) }

// KolmogorovSmirnov returns the largest difference of the empirical distribution functions of two lists in ascending
// order, 0 to 1. It is 1 if one list is empty and the other is not.
func KolmogorovSmirnov(a, b []float64) (most float64) {
	if len(a) == 0 || len(b) == 0 {
		return float64(min(len(a)+len(b), 1))
	}
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		x := min(a[i], b[j])
		for i < len(a) && a[i] <= x {
			i++
		}
		for j < len(b) && b[j] <= x {
			j++
		}
		most = max(most, math.Abs(float64(i)/float64(len(a))-float64(j)/float64(len(b))))
	}
	return most
}
