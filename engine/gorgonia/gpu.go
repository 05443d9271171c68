package gorgonia

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"gorgonia.org/tensor"

	"github.com/sluice-rag/sluice/cuda"
	"github.com/sluice-rag/sluice/engine/internal/device/gpu"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// ErrOnGPU is wrapped where an operation would have to read a GPU's memory from the process.
var ErrOnGPU = errors.New("the tensor lies in a GPU's memory")

// GPU is a tensor.Engine whose tensors lie in the memory of an NVIDIA GPU, where MatMul and MatVecMul multiply them:
//
//	g, err := gorgonia.NewGPU(0)
//	a := tensor.New(tensor.WithShape(m, k), tensor.Of(tensor.Float32), tensor.WithEngine(g))
//	err = g.Memcpy(a, host)  // host is a tensor of the same size in the process's memory
//	c, err := tensor.MatMul(a, b)
//	err = g.Memcpy(result, c) // back
//
// Tensors are float32, whole or transposed (T); c.Data() of such a tensor must not be called. Package tensor never
// frees memory: Release frees that of one tensor, and Close all of it. Products are rounded like a float32 sum in
// chains of 64 products. GPU may be used by many goroutines at once, on tensors that are not written at the same time.
type GPU struct {
	// DType is the format of products: kernels.F32, or kernels.BF16x3 on GPUs of sm_80 and later. It must be set
	// before the first use.
	DType kernels.DType

	gpu    *cuda.Device
	device *gpu.Device
	mu     sync.Mutex
	live   map[uintptr]int64 // bytes by address
}

var (
	_ tensor.Engine       = (*GPU)(nil)
	_ tensor.NonStdEngine = (*GPU)(nil)
	_ tensor.MatMuler     = (*GPU)(nil)
	_ tensor.MatVecMuler  = (*GPU)(nil)
)

// NewGPU opens the GPU with the given ordinal. If it cannot be opened, the error wraps cuda.ErrUnavailable with the
// reason.
func NewGPU(ordinal int) (*GPU, error) {
	d, err := cuda.Open(cuda.Options{Ordinal: ordinal})
	if err != nil {
		return nil, fmt.Errorf("gorgonia: %w", err)
	}
	host, err := cpu.Open("")
	if err == nil {
		g := &GPU{gpu: d, live: map[uintptr]int64{}}
		if g.device, err = gpu.New(d, host); err == nil {
			return g, nil
		}
	}
	return nil, errors.Join(fmt.Errorf("gorgonia: %w", err), d.Close())
}

// Close frees all memory and closes the GPU; tensors of g must not be used afterwards.
func (g *GPU) Close() error {
	g.mu.Lock()
	for at := range g.live {
		g.gpu.Free(cuda.Ptr(at))
	}
	clear(g.live)
	g.mu.Unlock()
	return g.gpu.Close()
}

// Release frees the memory of a tensor; its views must not be used afterwards either.
func (g *GPU) Release(t *tensor.Dense) error { return g.Free(t, int64(t.MemSize())) }

// NonStdAlloc marks g as an engine that allocates tensor memory itself.
func (g *GPU) NonStdAlloc() {}

// AllocAccessible returns false, because the process cannot address the memory that g allocates.
func (g *GPU) AllocAccessible() bool { return false }

// WorksWith returns true: every dense layout is supported.
func (g *GPU) WorksWith(tensor.DataOrder) bool { return true }

// memory is a piece of GPU memory: its address and its size in bytes.
type memory struct{ at, size uintptr }

func (m memory) Uintptr() uintptr { return m.at }
func (m memory) MemSize() uintptr { return m.size }

// Alloc implements tensor.Engine. The memory is zeroed.
func (g *GPU) Alloc(size int64) (tensor.Memory, error) {
	at, err := g.gpu.Alloc(size)
	if err == nil {
		err = g.gpu.Do(func(s *cuda.Stream) error { return s.Fill(at, 0, size) })
	}
	if err != nil {
		g.gpu.Free(at)
		return nil, fmt.Errorf("gorgonia: a tensor of %d bytes: %w", size, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.live[uintptr(at)] = size
	return memory{uintptr(at), uintptr(size)}, nil
}

// Free implements tensor.Engine.
func (g *GPU) Free(m tensor.Memory, _ int64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.live[m.Uintptr()]; !ok {
		return fmt.Errorf("gorgonia: %w: memory at %#x is not the GPU's", kernels.ErrArgument, m.Uintptr())
	}
	delete(g.live, m.Uintptr())
	g.gpu.Free(cuda.Ptr(m.Uintptr()))
	return nil
}

// owns reports whether m lies within a tensor of g.
func (g *GPU) owns(m tensor.Memory) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for at, size := range g.live {
		if m.Uintptr() >= at && m.Uintptr() < at+uintptr(max(size, 1)) {
			return true
		}
	}
	return false
}

// hostBytes returns memory of the process as a byte slice.
func hostBytes(m tensor.Memory) ([]byte, error) {
	t, ok := m.(*tensor.Dense)
	if !ok || !t.IsNativelyAccessible() {
		return nil, fmt.Errorf("gorgonia: %w: a tensor in the process's memory is expected on one side",
			kernels.ErrArgument)
	}
	values, ok := t.Data().([]float32)
	if !ok {
		return nil, fmt.Errorf("gorgonia: %w: %s, float32 is expected", kernels.ErrArgument, t.Dtype())
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), 4*len(values)), nil
}

// Memcpy copies the raw memory of a tensor to the GPU, from it, or within it. Both sizes must be equal.
func (g *GPU) Memcpy(dst, src tensor.Memory) (err error) {
	if dst.MemSize() != src.MemSize() {
		return fmt.Errorf("gorgonia: %w: a copy of %d bytes to %d", kernels.ErrShape, src.MemSize(), dst.MemSize())
	}
	if dst.MemSize() == 0 {
		return nil
	}
	to, from := g.owns(dst), g.owns(src)
	bytes := make([]byte, 0)
	switch {
	case to && from:
		bytes = make([]byte, src.MemSize())
	case to:
		bytes, err = hostBytes(src)
	case from:
		bytes, err = hostBytes(dst)
	default:
		err = fmt.Errorf("gorgonia: %w: neither tensor lies on the GPU", kernels.ErrArgument)
	}
	if err != nil {
		return err
	}
	return g.gpu.Do(func(s *cuda.Stream) error {
		if from {
			if err := s.Read(bytes, cuda.Ptr(src.Uintptr())); err != nil {
				return err
			}
		}
		if to {
			return s.Write(cuda.Ptr(dst.Uintptr()), bytes)
		}
		return nil
	})
}

// Memset fills a tensor with a float32 value.
func (g *GPU) Memset(m tensor.Memory, value any) error {
	x, ok := value.(float32)
	if !ok || !g.owns(m) {
		return fmt.Errorf("gorgonia: %w: %T, float32 is expected, in a tensor on the GPU", kernels.ErrArgument, value)
	}
	values := make([]float32, m.MemSize()/4)
	for i := range values {
		values[i] = x
	}
	return g.gpu.Do(func(s *cuda.Stream) error {
		return s.Write(cuda.Ptr(m.Uintptr()), unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))),
			4*len(values)))
	})
}

// Memclr sets a tensor to zero. The interface has no error result; if the GPU is lost, the next operation reports it.
func (g *GPU) Memclr(m tensor.Memory) {
	if g.owns(m) {
		_ = g.gpu.Do(func(s *cuda.Stream) error { return s.Fill(cuda.Ptr(m.Uintptr()), 0, int64(m.MemSize())) })
	}
}

// Accessible returns an error that wraps ErrOnGPU: use Memcpy to copy the tensor to the process's memory.
func (g *GPU) Accessible(tensor.Memory) (tensor.Memory, error) {
	return nil, fmt.Errorf("gorgonia: %w: Memcpy copies it", ErrOnGPU)
}

// MatMul writes a·b to prealloc; tensor.MatMul calls it.
func (g *GPU) MatMul(a, b, prealloc tensor.Tensor) error {
	return g.product("MatMul", matrixOf(a), matrixOf(b), matrixOf(prealloc), a, b, prealloc)
}

// MatVecMul writes the product of the matrix a and the vector b to prealloc; tensor.MatVecMul calls it.
func (g *GPU) MatVecMul(a, b, prealloc tensor.Tensor) error {
	return g.product("MatVecMul", matrixOf(a), vectorOf(b), vectorOf(prealloc), a, b, prealloc)
}

func (g *GPU) product(op string, a, b, out view, tensors ...tensor.Tensor) error {
	if !fit(a, b, out) {
		return shapeError(op, tensors...)
	}
	var dense [3]gpu.Dense
	for i, v := range []view{a, b, out} {
		t, ok := tensors[i].(*tensor.Dense)
		if !ok || t.Dtype() != tensor.Float32 || t.MemSize() > 0 && !g.owns(t) {
			return fmt.Errorf("gorgonia: %s: %w: dense float32 tensors of this GPU are expected", op,
				kernels.ErrArgument)
		}
		dense[i] = gpu.Dense{At: cuda.Ptr(t.Uintptr()), Rows: v.rows, Cols: v.cols, Down: v.down, Right: v.right}
	}
	if at := dense[2].At; out.rows*out.cols > 0 && (at == dense[0].At || at == dense[1].At) {
		return fmt.Errorf("gorgonia: %s: %w: the result is an operand", op, kernels.ErrArgument)
	}
	if err := g.device.Product(dense[2], dense[0], dense[1], g.DType); err != nil {
		return fmt.Errorf("gorgonia: %s: %w", op, err)
	}
	return nil
}
