package train

import (
	"context"
	"fmt"
	"sync"

	"gorgonia.org/tensor"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/engine/gorgonia"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/training"
)

// machine is the arithmetic of float32 on the engine: products through gorgonia.org/tensor, everything else in spans
// that are shared out among its threads.
type machine struct {
	engine  *engine.Engine
	tensors *gorgonia.Engine
	kernels cpu.Kernels
	scratch sync.Pool // of *[]float32, for attention
}

func newMachine(e *engine.Engine) (*machine, error) {
	t, err := gorgonia.New(e)
	if err != nil {
		return nil, fmt.Errorf("train: %w", err)
	}
	k, err := cpu.Open(e.Describe().ISA)
	if err != nil {
		return nil, fmt.Errorf("train: %w", err)
	}
	return &machine{engine: e, tensors: t, kernels: k,
		scratch: sync.Pool{New: func() any { return new([]float32) }}}, nil
}

func (m *machine) matrix(data []float32, rows, cols int) *tensor.Dense {
	return tensor.New(tensor.WithShape(rows, cols), tensor.WithBacking(data[:rows*cols]), tensor.WithEngine(m.tensors))
}

func (m *machine) linear(y, x, w []float32, rows, out, in int) error {
	return m.tensors.Linear(m.matrix(y, rows, out), m.matrix(x, rows, in), m.matrix(w, out, in))
}

func (m *machine) weights(dw, dy, x []float32, rows, out, in int) error {
	return m.tensors.LinearWeights(m.matrix(dw, out, in), m.matrix(dy, rows, out), m.matrix(x, rows, in))
}

func (m *machine) input(dx, dy, w []float32, rows, out, in int) error {
	return m.tensors.LinearInput(m.matrix(dx, rows, in), m.matrix(dy, rows, out), m.matrix(w, out, in))
}

// The slices below have the shapes that the kernels ask for, which is all that these could refuse.

func (m *machine) gelu(y, slope []float32) { _ = training.GELUSlope(m.kernels, y, slope) }

func (m *machine) adam(w, g, mean, square []float32, s training.AdamStep) {
	_ = training.Adam(m.kernels, w, g, mean, square, s)
}

func (m *machine) attendHead(a training.AttendedHead, q, k, v, bias, p, context []float32) {
	scratch, _ := m.scratch.Get().(*[]float32)
	defer m.scratch.Put(scratch)
	_ = training.Attend(m.kernels, a, q, k, v, bias, p, context, scratch)
}

func (m *machine) attendHeadBack(a training.AttendedHead, q, k, v, p, dc, dq, dk, dv []float32) {
	scratch, _ := m.scratch.Get().(*[]float32)
	defer m.scratch.Put(scratch)
	_ = training.AttendBack(m.kernels, a, q, k, v, p, dc, dq, dk, dv, scratch)
}

func (m *machine) each(tasks int, fn func(task int)) error {
	if tasks == 1 {
		fn(0)
		return nil
	}
	return m.engine.Parallel(context.Background(), tasks, func(task int) error { fn(task); return nil })
}
