package gpu

import (
	"math"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/kernels"
)

// Bound implements device.Device.
//
// The terms are the same as in kernels/cpu/tiles.Bound; only the rounding of sums differs. A float32 sum is a chain of
// 64 fused products, followed by a sum of chains. Tensor cores multiply bfloat16 exactly, align the products and the
// running sum of an instruction to the largest exponent and truncate below its last place. The error is up to 17 times
// 2^-23 of the largest term for one step of 16, and 18 times for two steps of 8 (Fasi, Higham, Mikaitis, Pranesh,
// Numerical behavior of NVIDIA tensor cores, 2021). The bound uses 20, and the largest term is at most the product of
// the norms. Sums of int8 are exact. Sums of e4m3 are truncated after 13 bits on sm_89 and sm_90 (Xie et al., MMA-Sim,
// 2025; later architectures keep more): up to 34 times 2^-13 of the largest term for one step of 32, 36 for two steps
// of 16, including the rounding of each step. The bound uses 40. A chain of two instructions, 64 elements, is
// therefore off by 80 times the product of the norms of its elements, and by Cauchy–Schwarz all chains together by 80
// times the product of the vectors' norms.
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

// limits returns the largest norm, the largest distance to the exact vector, and the largest norm of the second part
// among the packed vectors.
func (s *set) limits() (norm, residual, low float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return up * math.Sqrt(s.stats.Norm), up*math.Sqrt(s.stats.Residual) + 0x1p-149*float64(s.dim),
		up * math.Sqrt(s.stats.Low)
}
