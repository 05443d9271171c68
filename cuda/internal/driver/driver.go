//go:build native && cgo && linux && (amd64 || arm64)

package driver

// #cgo LDFLAGS: -L${SRCDIR}/lib -ldl
// #include <cuda.h>
// #include <stdlib.h>
// #include "forward.h"
// static CUresult slc_encode_boxes(CUtensorMap *m, CUtensorMapDataType type, CUdeviceptr p, const cuuint64_t *size,
//     const cuuint64_t *strides, const cuuint32_t *box, const cuuint32_t *steps) {
//   return cuTensorMapEncodeTiled(m, type, 2, (void *)p, size, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
//       CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
// }
import "C"

import (
	"fmt"
	"strings"
	"sync"
	"unsafe"

	"gorgonia.org/cu"
)

// Result is a CUresult that is not zero.
type Result int

// Error returns the number only; Text has the driver's description.
func (r Result) Error() string { return fmt.Sprintf("CUDA error %d", int(r)) }

func result(code C.CUresult) error {
	if code == C.CUDA_SUCCESS {
		return nil
	}
	return Result(code)
}

// LoadError reports why no driver is loaded. Code is 0, and Name empty, if no library could be opened.
type LoadError struct {
	Code       int
	Name, Text string
}

func (e *LoadError) Error() string { return e.Text }

// loading is the state of the forwarders, which belong to the process: it initialises one driver.
var loading struct {
	sync.Mutex
	done bool
}

// Library paths, tried in order: the dynamic linker's, then those of container images and WSL.
var places = []string{"libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"}

// Load opens the driver at path, or at the usual places if path is "", and initialises it. After a success it does
// nothing; after a failure it tries again.
func Load(path string) error {
	loading.Lock()
	defer loading.Unlock()
	if loading.done {
		return nil
	}
	try := places
	if path != "" {
		try = []string{path}
	}
	var first *LoadError
	for _, p := range try {
		err := load(p)
		if err == nil {
			loading.done = true
			return nil
		}
		if first == nil || err.Code != 0 {
			first = err
		}
		if err.Code != 0 { // a driver that returns an error ends the search
			break
		}
	}
	return first
}

func load(path string) *LoadError {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	const size = 512
	text := (*C.char)(C.calloc(1, size))
	defer C.free(unsafe.Pointer(text))
	var loaded C.int
	code := C.slc_cuda_load(name, &loaded, text, size)
	if code == 0 {
		return nil
	}
	e := &LoadError{Text: C.GoString(text)}
	if loaded != 0 {
		e.Code = int(code)
		if name, what, ok := strings.Cut(e.Text, "\n"); ok {
			e.Name, e.Text = name, what
		}
	}
	return e
}

// Version returns the CUDA version that the driver supports: 13000 is 13.0.
func Version() (int, error) {
	var v C.int
	err := result(C.cuDriverGetVersion(&v))
	return int(v), err
}

// Text returns the driver's name and description of a code.
func Text(code int) (name, text string) {
	var n, t *C.char
	C.cuGetErrorName(C.CUresult(code), &n)
	C.cuGetErrorString(C.CUresult(code), &t)
	if n != nil {
		name = C.GoString(n)
	}
	if t != nil {
		text = C.GoString(t)
	}
	return name, text
}

// cu's handles are structures of one pointer each.
func stream(s cu.Stream) C.CUstream       { return *(*C.CUstream)(unsafe.Pointer(&s)) }
func function(f cu.Function) C.CUfunction { return *(*C.CUfunction)(unsafe.Pointer(&f)) }

// Handle returns the driver's handle of a stream.
func Handle(s cu.Stream) unsafe.Pointer { return unsafe.Pointer(stream(s)) }

// SetShared allows a kernel that many bytes of dynamic shared memory; without it the maximum is 48 KiB.
func SetShared(f cu.Function, bytes int) error {
	return result(C.cuFuncSetAttribute(function(f), C.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, C.int(bytes)))
}

// HostAlloc returns page-locked memory for asynchronous copies.
func HostAlloc(bytes int) (unsafe.Pointer, error) {
	var p unsafe.Pointer
	err := result(C.cuMemHostAlloc(&p, C.size_t(bytes), 0))
	return p, err
}

// Pool is a pool of device memory whose allocations are ordered with the work of a stream.
type Pool struct{ p C.CUmemoryPool }

// NewPool creates a pool on a device; freed memory returns to the system at the next synchronisation.
func NewPool(device int) (Pool, error) {
	var props C.CUmemPoolProps
	props.allocType = C.CU_MEM_ALLOCATION_TYPE_PINNED
	props.location._type = C.CU_MEM_LOCATION_TYPE_DEVICE
	props.location.id = C.int(device)
	var p Pool
	err := result(C.cuMemPoolCreate(&p.p, &props))
	return p, err
}

// Alloc queues an allocation on s, after the work already queued.
func (p Pool) Alloc(bytes int64, s cu.Stream) (cu.DevicePtr, error) {
	var d C.CUdeviceptr
	err := result(C.cuMemAllocFromPoolAsync(&d, C.size_t(bytes), p.p, stream(s)))
	return cu.DevicePtr(d), err
}

// Destroy releases the pool; memory still allocated from it is released when it is freed.
func (p Pool) Destroy() error { return result(C.cuMemPoolDestroy(p.p)) }

// FreeAsync frees memory of a pool after the work queued on s.
func FreeAsync(p cu.DevicePtr, s cu.Stream) error {
	return result(C.cuMemFreeAsync(C.CUdeviceptr(p), stream(s)))
}

// EncodeBoxes makes the map by which kernels copy boxes of a matrix of bytes or bfloat16 (element 1 or 2) in device
// memory, with a swizzle of 128 bytes and zeros beyond the matrix. Sizes are in elements and rows, the stride in
// bytes.
func EncodeBoxes(p cu.DevicePtr, element, width, height int, stride int64, boxWidth, boxHeight int) (m [128]byte,
	err error) {
	kind := C.CUtensorMapDataType(C.CU_TENSOR_MAP_DATA_TYPE_UINT8)
	if element == 2 {
		kind = C.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
	}
	made := (*C.CUtensorMap)(C.aligned_alloc(64, C.sizeof_CUtensorMap))
	if made == nil {
		return m, Result(C.CUDA_ERROR_OUT_OF_MEMORY)
	}
	defer C.free(unsafe.Pointer(made))
	size, strides := [2]C.cuuint64_t{C.cuuint64_t(width), C.cuuint64_t(height)}, [1]C.cuuint64_t{C.cuuint64_t(stride)}
	box, steps := [2]C.cuuint32_t{C.cuuint32_t(boxWidth), C.cuuint32_t(boxHeight)}, [2]C.cuuint32_t{1, 1}
	err = result(C.slc_encode_boxes(made, kind, C.CUdeviceptr(p), &size[0], &strides[0], &box[0], &steps[0]))
	if err == nil {
		m = *(*[128]byte)(unsafe.Pointer(made))
	}
	return m, err
}
