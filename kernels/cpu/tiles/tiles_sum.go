package tiles

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/sluice-rag/sluice/kernels"
)

// Sum is a sum in units of 2⁻³⁰: a 128-bit integer in two's complement, Hi·2⁶⁴ + Lo. A tile adds at most 2⁶² units, so
// that 2⁶⁵ tiles fit; 10¹² pairs with values up to 4 take 73 bits.
type Sum struct {
	Hi int64
	Lo uint64
}

// Plus returns s + o, or kernels.ErrRange if 128 bits do not hold it.
func (s Sum) Plus(o Sum) (Sum, error) {
	lo, carry := bits.Add64(s.Lo, o.Lo, 0)
	hi, _ := bits.Add64(uint64(s.Hi), uint64(o.Hi), carry)
	r := Sum{int64(hi), lo}
	if (s.Hi < 0) == (o.Hi < 0) && (r.Hi < 0) != (s.Hi < 0) {
		return Sum{}, fmt.Errorf("%w: a sum of %v and %v", kernels.ErrRange, s.Float64(), o.Float64())
	}
	return r, nil
}

// Float64 returns the sum's value with a relative error of at most 2⁻⁵².
func (s Sum) Float64() float64 {
	hi, lo, sign := uint64(s.Hi), s.Lo, 1.
	if s.Hi < 0 {
		var borrow uint64
		lo, borrow = bits.Sub64(0, lo, 0)
		hi, _ = bits.Sub64(0, hi, borrow)
		sign = -1
	}
	return sign * (math.Ldexp(float64(hi), 64-30) + math.Ldexp(float64(lo), -30))
}

// sumOf returns a number of units as a Sum.
func sumOf(units int64) Sum { return Sum{units >> 63, uint64(units)} }
