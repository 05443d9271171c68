package device

import (
	"context"
	"fmt"
	"sync"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/scores"
	"github.com/sluice-rag/sluice/kernels/cpu/tiles"
)

// CPU is the Device that every machine has: single-threaded kernels of one instruction set.
type CPU struct {
	cpu.Kernels
	used sync.Pool // of unused *tiles.Panels: fresh memory costs as much as packing
}

// NewCPU returns the device of those kernels.
func NewCPU(k cpu.Kernels) *CPU { return &CPU{Kernels: k} }

const (
	countWork  = 400 << 20 // 1 ms with AMX, 4 ms with AVX-512
	matrixWork = 200 << 20 // .6 ms with AMX, 2 ms with AVX-512
	goSlower   = 128       // so much smaller are tasks without the C kernels
)

func (c *CPU) Describe() Info {
	i := Info{Name: "cpu", Kernel: scores.Name(c.Kernels), ISA: c.ISA().String(), CountWork: countWork,
		MatrixWork: matrixWork}
	if c.ISA() == cpu.Go {
		i.CountWork /= goSlower
		i.MatrixWork /= goSlower
	}
	return i
}

// panels is a set on the CPU.
type panels struct {
	*tiles.Panels
	mu    sync.Mutex // of what packing finds
	freed bool
}

func (p *panels) Len() int       { return p.N }
func (p *panels) Dimension() int { return p.Dim }
func (p *panels) Scale() float64 { return p.Panels.Scale }

// Upload implements Device: there is nothing to copy.
func (c *CPU) Upload(cpu.Rows) (any, error) { return nil, nil }

func (c *CPU) Release(any) {}

func (c *CPU) Has(t kernels.DType) bool { return tiles.Has(c.Kernels, t) }

func (c *CPU) Bytes(t kernels.DType, n, dim int) int64 { return tiles.Bytes(c.Kernels, t, n, dim) }

func (c *CPU) New(side Side, t kernels.DType, m kernels.Metric, n, dim int, scale float64) (Set, error) {
	old, _ := c.used.Get().(*tiles.Panels)
	p, err := tiles.Renew(c.Kernels, old, side, t, m, n, dim, scale)
	if err != nil {
		return nil, err
	}
	return &panels{Panels: p}, nil
}

func (c *CPU) Free(s Set) {
	if p, ok := s.(*panels); ok && !p.freed {
		p.freed = true
		c.used.Put(p.Release())
	}
}

func own(s Set) (*panels, error) {
	if p, ok := s.(*panels); ok && !p.freed {
		return p, nil
	}
	return nil, fmt.Errorf("%w: a set of another device, or one that was freed", kernels.ErrArgument)
}

func both(rows, lanes Set) (left, right *tiles.Panels, err error) {
	l, err := own(rows)
	if err != nil {
		return nil, nil, err
	}
	r, err := own(lanes)
	if err != nil {
		return nil, nil, err
	}
	return l.Panels, r.Panels, nil
}

func (c *CPU) Pack(s Set, rows cpu.Rows, order []int32, from, to int) error {
	p, err := own(s)
	if err != nil {
		return err
	}
	stats, err := tiles.Pack(c.Kernels, p.Panels, rows, order, from, to)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Merge(stats)
	return err
}

func (c *CPU) Bound(left, right Set) float64 {
	return tiles.Bound(left.(*panels).Panels, right.(*panels).Panels)
}

func (c *CPU) Count(k *Count, rows Set, row0, row1 int, lanes Set, lane0, lane1 int) error {
	left, right, err := both(rows, lanes)
	if err != nil {
		return err
	}
	return k.Add(c.Kernels, left, row0, row1, right, lane0, lane1)
}

func (c *CPU) Matrix(out []float32, stride int, rows Set, row0, row1 int, lanes Set, lane0, lane1 int) error {
	left, right, err := both(rows, lanes)
	if err != nil {
		return err
	}
	return tiles.Matrix(c.Kernels, out, stride, left, row0, row1, right, lane0, lane1)
}

func (c *CPU) Scores(m kernels.Metric, out []float64, stride int, a, b cpu.Rows) error {
	return scores.Block(c.Kernels, m, out, stride, a, b)
}

func (c *CPU) Pairs(m kernels.Metric, out []float64, a cpu.Rows, rowsA []int32, b cpu.Rows, rowsB []int32) error {
	return scores.Pairs(c.Kernels, m, out, a, rowsA, b, rowsB)
}

// HasScan implements Device: the index has scans of its own (engine/internal/index).
func (c *CPU) HasScan() bool { return false }

func (c *CPU) Code(context.Context, cpu.Rows, *Axes, int) (Codes, error) { return nil, errNoScan }

func (c *CPU) Scan(*Scan) error { return errNoScan }

var errNoScan = fmt.Errorf("%w: the device has no scans", kernels.ErrISA)
