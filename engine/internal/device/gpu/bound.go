package gpu

import (
	"math"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/kernels"
)

// Bound implements device.Device.
//
// The terms are those of kernels/cpu/tiles.Bound; what differs is how sums are rounded. Float32 is a chain of 64 fused
// products, then a sum of chains. Tensor cores multiply bfloat16 exactly, bring the products and the sum so far of one
// instruction to the exponent of the largest and cut off below its last place: up to 17 terms of 2^-23 of the largest
// in one step of 16, 18 in two steps of 8 (Fasi, Higham, Mikaitis, Pranesh, Numerical behavior of NVIDIA tensor cores,
// 2021); 20 are counted, and the largest is at most the product of the norms. Sums of int8 are exact. Those of e4m3 are
// cut off behind 13 bits on sm_89 and sm_90 (Xie et al., MMA-Sim, 2025; later architectures keep more): up to 34 terms
// of 2^-13 of the largest in one step of 32, 36 in two of 16, with the rounding of each step; 40 are counted. A chain
// of two instructions, 64 elements, has 80 of the product of their norms, and by Cauchy and Schwarz all chains together
// have 80 of that of the vectors' norms.
func (d *Device) Bound(left, right device.Set) float64 {
	const (
		u           = 0x1p-24
		instruction = 20 * 2 * u
		fp8Chain    = 2 * 40 * 0x1p-13
	)
	l, r := left.(*set), right.(*set)
	nl, rl, ll := l.limits()
	nr, rr, lr := r.limits()
	dim := float64(l.dim)
	nx, ny := nl+rl, nr+rr
	e := rl*ny + nx*rr
	hx, hy := nx+ll, ny+lr // of the first parts of what is split
	switch l.dtype {
	case kernels.F32:
		e += (min(64, dim) + math.Ceil(dim/64) + 2) * u * nx * ny
	case kernels.BF16:
		e += instruction * math.Ceil(dim/16) * nx * ny
	case kernels.BF16x3: // 32 elements are a chain: four instructions of small products, then two; then a sum of chains
		chains := math.Ceil(dim/32) + 2
		e += ll*lr + 6*instruction*(hx*lr+ll*hy) + 2*instruction*hx*hy + chains*u*(hx*hy+hx*lr+ll*hy)
	case kernels.I8: // a sum as a float, the product of both steps, and of both
		e += 3 * u * nx * ny
	case kernels.FP8:
		e += (fp8Chain + (math.Ceil(dim/64)+5)*u) * nx * ny
	}
	if l.metric == kernels.L2 {
		e += u * ((nx*nx+ny*ny)/2 + 2*nx*ny + nx*nx + ny*ny)
	}
	e += dim*0x1p-120 + 1e-15*(dim+16)*(nx+ny)*(nx+ny)
	return 1.01 * e
}

// limits are the largest norm, distance to the exact vector, and norm of the second part of what is packed.
func (s *set) limits() (norm, residual, low float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return up * math.Sqrt(s.stats.Norm), up*math.Sqrt(s.stats.Residual) + 0x1p-149*float64(s.dim),
		up * math.Sqrt(s.stats.Low)
}
