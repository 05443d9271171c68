package device

import (
	"context"
	"fmt"
	"sync"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// CPU is the device that every machine has: single-threaded kernels of one instruction set.
type CPU struct {
	cpu.Kernels
	used sync.Pool // of *cpu.Panels that are no longer used: fresh memory costs as much as packing
}

// NewCPU returns the device of those kernels.
func NewCPU(k cpu.Kernels) *CPU { return &CPU{Kernels: k} }

const (
	countWork  = 400 << 20 // 1 ms with AMX, 4 ms with AVX-512
	matrixWork = 200 << 20 // .6 ms with AMX, 2 ms with AVX-512
	goSlower   = 128       // so much smaller are tasks without the C kernels
)

// Describe implements Device.
func (c *CPU) Describe() Info {
	i := Info{Name: "cpu", Kernel: c.Kernels.Name(), ISA: c.ISA().String(), CountWork: countWork,
		MatrixWork: matrixWork}
	if c.ISA() == cpu.Go {
		i.CountWork /= goSlower
		i.MatrixWork /= goSlower
	}
	return i
}

// panels is a set on the CPU.
type panels struct {
	*cpu.Panels
	mu    sync.Mutex // of what packing finds
	freed bool
}

func (p *panels) Len() int       { return p.N }
func (p *panels) Dimension() int { return p.Dim }
func (p *panels) Scale() float64 { return p.Panels.Scale }

// Upload implements Device: there is nothing to copy.
func (c *CPU) Upload(cpu.Rows) (any, error) { return nil, nil }

// Release implements Device.
func (c *CPU) Release(any) {}

// New implements Device.
func (c *CPU) New(side Side, t kernels.DType, m kernels.Metric, n, dim int, scale float64) (Set, error) {
	old, _ := c.used.Get().(*cpu.Panels)
	p, err := c.Renew(old, side, t, m, n, dim, scale)
	if err != nil {
		return nil, err
	}
	return &panels{Panels: p}, nil
}

// Free implements Device.
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

func both(rows, lanes Set) (left, right *cpu.Panels, err error) {
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

// Pack implements Device.
func (c *CPU) Pack(s Set, rows cpu.Rows, order []int32, from, to int) error {
	p, err := own(s)
	if err != nil {
		return err
	}
	stats, err := c.Kernels.Pack(p.Panels, rows, order, from, to)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Merge(stats)
	return err
}

// Bound implements Device.
func (c *CPU) Bound(left, right Set) float64 {
	return cpu.Bound(left.(*panels).Panels, right.(*panels).Panels)
}

// Count implements Device.
func (c *CPU) Count(k *Count, rows Set, row0, row1 int, lanes Set, lane0, lane1 int) error {
	left, right, err := both(rows, lanes)
	if err != nil {
		return err
	}
	return c.Kernels.Count(k, left, row0, row1, right, lane0, lane1)
}

// Matrix implements Device.
func (c *CPU) Matrix(out []float32, stride int, rows Set, row0, row1 int, lanes Set, lane0, lane1 int) error {
	left, right, err := both(rows, lanes)
	if err != nil {
		return err
	}
	return c.Kernels.Matrix(out, stride, left, row0, row1, right, lane0, lane1)
}

// HasScan implements Device: the index has scans of its own (engine/internal/index).
func (c *CPU) HasScan() bool { return false }

// Code implements Device.
func (c *CPU) Code(context.Context, cpu.Rows, *Axes, int) (Codes, error) { return nil, errNoScan }

// Scan implements Device.
func (c *CPU) Scan(*Scan) error { return errNoScan }

var errNoScan = fmt.Errorf("%w: the device has no scans", kernels.ErrISA)
