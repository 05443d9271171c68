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

// Matrix implements device.Device.
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

// Count implements device.Device.
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
