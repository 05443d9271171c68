// Package gpu is the engine's device for NVIDIA GPUs. It keeps sets and copies of rows in GPU memory and launches the
// kernels of kernels/cuda through package cuda.
package gpu

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/sluice-rag/sluice/cuda"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cuda/image"
)

// Device implements device.Device. Its calls may come from any goroutine; they run one after the other on the thread
// that package cuda has for the GPU.
type Device struct {
	gpu    *cuda.Device
	host   cpu.Kernels // computes canonical scores of rows without a copy on the GPU
	module *cuda.Module
	mu     sync.Mutex
	ring   ringState
}

var _ device.Device = (*Device)(nil)

// New loads the kernels. host computes the canonical scores of rows that have no copy on the GPU, with the same bits.
// The caller closes d.
func New(d *cuda.Device, host cpu.Kernels) (*Device, error) {
	module, err := d.Load(image.Bytes())
	if err != nil {
		return nil, fmt.Errorf("gpu: %w", err)
	}
	g := &Device{gpu: d, host: host, module: module}
	return g, g.tryRing()
}

// Multiply-adds of a task: a few milliseconds of a data-centre GPU, so that cancellation is prompt and the cost of
// launches is negligible.
const (
	countWork  = 200e9
	matrixWork = 50e9
	packBytes  = 64 << 20 // twice the staging memory: about 3 ms of copies for each launch and wait
)

func (d *Device) Describe() device.Info {
	i := d.gpu.Info()
	return device.Info{Name: "cuda", Kernel: "slc_scores (" + i.Name + ")",
		ISA: fmt.Sprintf("sm_%d%d", i.Capability[0], i.Capability[1]), CountWork: countWork, MatrixWork: matrixWork,
		PackBytes: packBytes, Memory: d.gpu.Limit(), Tiles: d.tiles()}
}

// Has implements device.Device: products of bfloat16 and int8 need the tensor cores of sm_80 or later, those of e4m3
// need sm_89.
func (d *Device) Has(t kernels.DType) bool {
	switch t {
	case kernels.F32:
		return true
	case kernels.BF16, kernels.BF16x3, kernels.I8:
		return d.gpu.Info().Capability[0] >= 8
	case kernels.FP8:
		c := d.gpu.Info().Capability
		return c[0] > 8 || c[0] == 8 && c[1] >= 9
	}
	return false
}

// kernel returns a kernel of the loaded image.
func (d *Device) kernel(name string) (cuda.Kernel, error) {
	k, err := d.module.Kernel(name)
	if err != nil {
		return k, fmt.Errorf("gpu: kernel %s: %w", name, err)
	}
	return k, nil
}

// held is a contiguous copy of rows, with their norms if they had any.
type held struct {
	mu          sync.Mutex
	owner       *Device
	rows, norms cuda.Ptr // norms is 0 if the rows have no norms
	n, dim      int
}

func (d *Device) Upload(rows cpu.Rows) (any, error) {
	h := &held{owner: d, n: rows.N, dim: rows.Dim}
	if err := d.upload(rows, &h.rows, &h.norms); err != nil {
		return nil, fmt.Errorf("gpu: %d rows of dimension %d: %w", rows.N, rows.Dim, err)
	}
	return h, nil
}

// upload copies rows and norms into new memory. On an error it frees what it has allocated.
func (d *Device) upload(rows cpu.Rows, data, norms *cuda.Ptr) (err error) {
	defer func() {
		if err != nil {
			d.gpu.Free(*data)
			d.gpu.Free(*norms)
			*data, *norms = 0, 0
		}
	}()
	width := 4 * rows.Dim
	if *data, err = d.gpu.Alloc(int64(rows.N) * int64(width)); err != nil {
		return err
	}
	if rows.Norms != nil {
		if *norms, err = d.gpu.Alloc(8 * int64(rows.N)); err != nil {
			return err
		}
	}
	return d.gpu.Do(func(s *cuda.Stream) error {
		if *norms != 0 {
			if err := s.Write(*norms, bytesOf(rows.Norms[:rows.N])); err != nil {
				return err
			}
		}
		if rows.Stride == rows.Dim {
			return s.Write(*data, bytesOf(rows.Data[:rows.N*rows.Dim]))
		}
		step := max(1, gather/width)
		buffer := make([]float32, 0, min(step, rows.N)*rows.Dim)
		for i := 0; i < rows.N; i += step {
			buffer = buffer[:0]
			for j := i; j < min(i+step, rows.N); j++ {
				buffer = append(buffer, rows.Row(j)...)
			}
			if err := s.Write(*data+cuda.Ptr(i*width), bytesOf(buffer)); err != nil {
				return err
			}
		}
		return nil
	})
}

// gather is the number of bytes of non-contiguous rows that are gathered for one copy.
const gather = 4 << 20

func (d *Device) Release(resident any) {
	h, ok := resident.(*held)
	if !ok || h.owner != d {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	d.gpu.Free(h.rows)
	d.gpu.Free(h.norms)
	h.owner, h.rows, h.norms = nil, 0, 0
}

// view describes rows in GPU memory, Dim elements apart.
type view struct {
	rows, norms uint64
	n, stride   int
}

// resident returns where rows lie on the GPU; ok is false if they are in the process's memory only.
func (d *Device) resident(rows cpu.Rows, norms bool) (v view, ok bool, err error) {
	if rows.Resident == nil {
		return view{}, false, nil
	}
	h, isHeld := rows.Resident.(*held)
	if !isHeld || h.owner != d || rows.First < 0 || rows.First+rows.N > h.n || rows.Dim != h.dim {
		return view{}, false, fmt.Errorf("%w: a copy of another device, or one that was given back",
			kernels.ErrArgument)
	}
	if norms && h.norms == 0 {
		return view{}, false, nil
	}
	v = view{rows: uint64(h.rows) + uint64(rows.First*h.dim*4), n: rows.N, stride: h.dim}
	if h.norms != 0 {
		v.norms = uint64(h.norms) + uint64(rows.First*8)
	}
	return v, true, nil
}

// bytesOf reinterprets a slice as bytes.
func bytesOf[T any](s []T) []byte {
	var one T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(one)))
}
