package tiles

import (
	"math"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// Bound returns ε ≥ |tile value − canonical counterpart (see Panels)|, including the float32 rounding of the
// comparison: it covers both operands' rounding, the sums and the canonical score's own error.
func Bound(left, right *Panels) float64 { return bound(left, right) }

// bound adds up, for exact vectors x, y and packed ones x̂, ŷ (sums: Higham, Accuracy and Stability of Numerical
// Algorithms, 2002, section 3.1):
//
//	|x̂·ŷ − x·y| ≤ ‖x̂−x‖‖ŷ‖ + ‖x‖‖ŷ−y‖, a chain of n roundings n·2⁻²⁴ of Σ|x̂ᵢŷᵢ| ≤ ‖x̂‖‖ŷ‖,
//
// the terms that the type drops, the terms of l2, flushed denormals, and the canonical score's own rounding.
func bound(left, right *Panels) float64 {
	const u = 0x1p-24
	d := float64(left.Dim)
	nx, ny := left.norm+left.residual, right.norm+right.residual // of x and y; of x̂ and ŷ as well
	e := left.residual*ny + nx*right.residual
	hx, hy := nx+left.low, ny+right.low // norms of the first bfloat16 parts
	switch left.DType {
	case kernels.F32:
		if left.isa == cpu.AMX { // third parts are at most 2⁻⁸ of the second, element by element
			e += 0x1p-7*left.low*right.low + (16+2+6*math.Ceil(d/32)+2)*u*(hx+1.01*left.low)*(hy+1.01*right.low)
			break
		}
		e += (min(block, d) + math.Ceil(d/block) + 2) * u * nx * ny
	case kernels.BF16x3:
		chain := 16 + 2 + 3*math.Ceil(d/32)
		if left.isa == cpu.BF16 {
			chain = bfmmla(3*min(32, d)) + math.Ceil(d/32)
		}
		e += left.low*right.low + (chain+2)*u*(hx*hy+hx*right.low+left.low*hy)
	case kernels.BF16:
		chain := 16 + 2 + math.Ceil(d/32)
		if left.isa == cpu.BF16 {
			chain = bfmmla(min(256, d)) + math.Ceil(d/256)
		}
		e += (chain + 2) * u * nx * ny
	case kernels.I16: // exact sums of 32 products become floats, are added, and multiplied by both steps
		e += (math.Ceil(d/32) + 5) * u * nx * ny
	case kernels.I8:
		e += 3 * u * nx * ny // integers are summed exactly
	}
	if left.Metric == kernels.L2 {
		e += u * ((nx*nx+ny*ny)/2 + 2*nx*ny + nx*nx + ny*ny)
	}
	e += d*0x1p-120 + 1e-15*(d+16)*(nx+ny)*(nx+ny)
	return 1.01 * e
}

// bfmmla bounds, in units of 2⁻²⁴, the roundings of a chain of n products that BFMMLA adds. Arm's definition (Arm
// Architecture Reference Manual, BFDotAdd) is acc = acc + (a·b + a′·b′) for two products after the other. A product of
// two bfloat16 is exact in float32, but flushed to 0 below 2⁻¹²⁶. Each of the two additions rounds to odd, so it errs
// by less than one unit in the last place, 2·2⁻²⁴ of its result: twice as much as rounding to nearest. A product passes
// the addition with its neighbour and at most n/2 into the accumulator. With FPCR.EBF, which Linux leaves at 0,
// processors round these sums once and to nearest, which the bound covers as well.
func bfmmla(n float64) float64 { return 2 * (math.Ceil(n/2) + 2) }
