package gpu

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/sluice-rag/sluice/cuda"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu/tiles"
)

// tilePanels is a side of a block's tile, and tileThreads its threads (kernels/cuda/tiles.cuh).
const (
	tilePanels  = 4
	tileThreads = 256
)

// stages returns the shared memory of a block that multiplies in that format: kStages·kStageBytes.
func stages(t kernels.DType) int {
	if t == kernels.F32 {
		return 48 << 10
	}
	return 64 << 10
}

// sides checks the panels of a call.
func (d *Device) sides(rows device.Set, row0, row1 int, lanes device.Set, lane0, lane1 int) (l, r *set, err error) {
	if l, err = d.own(rows); err != nil {
		return nil, nil, err
	}
	if r, err = d.own(lanes); err != nil {
		return nil, nil, err
	}
	if l.side != device.Left || r.side != device.Right || l.dtype != r.dtype || l.metric != r.metric || l.dim != r.dim {
		return nil, nil,
			fmt.Errorf("%w: tiles of %s %s×%d and %s %s×%d", kernels.ErrShape, l.dtype, l.metric, l.dim, r.dtype,
				r.metric, r.dim)
	}
	if row0 < 0 || row1 < row0 || row1 > l.Count() || lane0 < 0 || lane1 < lane0 || lane1 > r.Count() {
		return nil, nil,
			fmt.Errorf("%w: panels [%d, %d) of %d × [%d, %d) of %d", kernels.ErrShape, row0, row1, l.Count(),
				lane0, lane1, r.Count())
	}
	return l, r, nil
}

// arguments returns the first of the kernels that multiply.
func arguments(l, r *set, row0, row1, lane0, lane1 int) []uint64 {
	return []uint64{uint64(l.data), uint64(l.low), uint64(l.terms), uint64(l.n), uint64(row0), uint64(row1),
		uint64(r.data), uint64(r.low), uint64(r.terms), uint64(r.n), uint64(lane0), uint64(lane1), uint64(l.padded())}
}

func grid(row0, row1, lane0, lane1 int) [3]int {
	return [3]int{(lane1 - lane0 + tilePanels - 1) / tilePanels, (row1 - row0 + tilePanels - 1) / tilePanels, 1}
}

func (d *Device) Matrix(out []float32, stride int, rows device.Set, row0, row1 int, lanes device.Set, lane0,
	lane1 int) error {
	l, r, err := d.sides(rows, row0, row1, lanes, lane0, lane1)
	if err != nil {
		return err
	}
	m, n := min(row1*device.Panel, l.n)-row0*device.Panel, min(lane1*device.Panel, r.n)-lane0*device.Panel
	if m <= 0 || n <= 0 {
		return nil
	}
	if stride < n || len(out) < (m-1)*stride+n {
		return fmt.Errorf("%w: %d×%d scores into %d values with stride %d", kernels.ErrShape, m, n, len(out), stride)
	}
	w := d.way(l, r, row0, row1, lane0, lane1)
	k, err := d.kernel("slc_matrix_" + w.kernel)
	if err != nil {
		return err
	}
	var temporary pieces
	defer temporary.free(d)
	to, err := temporary.take(d, 4*int64(m)*int64(n))
	if err != nil {
		return fmt.Errorf("gpu: a matrix of %d×%d: %w", m, n, err)
	}
	factor := 1 / l.scale
	if l.metric == kernels.IP {
		factor /= r.scale
	}
	values := out
	if stride != n {
		values = make([]float32, m*n)
	}
	err = d.gpu.Do(func(s *cuda.Stream) error {
		args := append(w.arguments, uint64(l.metric), math.Float64bits(factor), uint64(to), uint64(n))
		if err := s.Launch(k, w.grid, w.block, w.shared, args...); err != nil {
			return err
		}
		return s.Read(bytesOf(values[:m*n]), to)
	})
	if err != nil {
		return fmt.Errorf("gpu: a matrix of %d×%d: %w", m, n, err)
	}
	spread(out, stride, values, n, m)
	return nil
}

// look and found mirror slc::Look and slc::Found.
type look struct {
	Low, High                          [device.MaxBrackets]float32
	Min, Max, Margin, BinLow, BinScale float32
	Brackets, CrossGroup, Best, IsL2   int32
	_                                  int32 // to a multiple of 8
}

type found struct {
	Counted          uint64
	Below            [device.MaxBrackets]uint64
	Kept, Other, All uint64
	Sum, Sum2        [3]uint64
	Overflow, _      uint32
}

func (d *Device) Count(c *device.Count, rows device.Set, row0, row1 int, lanes device.Set, lane0, lane1 int) error {
	l, r, err := d.sides(rows, row0, row1, lanes, lane0, lane1)
	if err != nil {
		return err
	}
	if err := c.Check(l.n, r.n, row1-row0, lane1-lane0); err != nil || row0 == row1 || lane0 == lane1 {
		return err
	}
	w := d.way(l, r, row0, row1, lane0, lane1)
	k, err := d.kernel("slc_count_" + w.kernel)
	if err != nil {
		return err
	}
	p, err := d.place(c, l, row0, row1, r, lane0, lane1)
	defer p.free(d)
	if err == nil {
		err = d.gpu.Do(func(s *cuda.Stream) error {
			if err := p.send(s); err != nil {
				return err
			}
			if err := s.Launch(k, w.grid, w.block, w.shared, append(w.arguments, p.arguments()...)...); err != nil {
				return err
			}
			return p.receive(s)
		})
	}
	if err != nil {
		return fmt.Errorf("gpu: counting %d×%d panels: %w", row1-row0, lane1-lane0, err)
	}
	return p.add()
}

// units returns a sum of a kernel, whose parts of 32, 32 and 64 bits add up with carries.
func units(parts [3]uint64) tiles.Sum {
	lo, carry := bits.Add64(parts[0], parts[1]<<32, 0)
	return tiles.Sum{Hi: int64(parts[2] + parts[1]>>32 + carry), Lo: lo}
}

// ordered returns a float as an unsigned integer that is larger when the float is (slc::ordered).
func ordered(x float32) uint32 {
	b := math.Float32bits(x)
	if b&(1<<31) != 0 {
		return ^b
	}
	return b | 1<<31
}

func unordered(b uint32) float32 {
	if b&(1<<31) != 0 {
		return math.Float32frombits(b &^ (1 << 31))
	}
	return math.Float32frombits(^b)
}

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
