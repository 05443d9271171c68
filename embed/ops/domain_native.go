//go:build native

package ops

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -isystem ${SRCDIR}/../../third_party/onnxruntime/include
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "ops.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime/cgo"
	"sync"
	"unsafe"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/encoder"
)

// Domain holds the operators for the sessions of one model.
type Domain struct {
	api     *C.OrtApi
	kernels cpu.Kernels
	arena   encoder.Arena // memory of the weights while the session is created
	linears []*linear     // in the order in which ONNX Runtime created them, which is also the order of a run
	handle  cgo.Handle
	domain  unsafe.Pointer
	calls   sync.Pool // of *call
	helpers [helpers]helper
}

// Register adds the operators to the options of a session of the ONNX Runtime at the path library, which must be
// loaded. They use the best instruction set of this machine, or the one that SLUICE_ISA names. Close frees them, after
// all sessions have been destroyed.
func Register(library string, o *ort.SessionOptions) (*Domain, error) {
	k, err := cpu.Open(os.Getenv("SLUICE_ISA"))
	if err != nil {
		return nil, fmt.Errorf("ops: SLUICE_ISA: %w", err)
	}
	// The binding keeps ONNX Runtime's own pointer in an unexported field, and has no function for custom operators.
	field := reflect.ValueOf(o).Elem().FieldByName("o")
	if !field.IsValid() || field.Kind() != reflect.Pointer || field.IsNil() {
		return nil, errors.New("ops: this version of the binding does not hold its session options as expected")
	}
	path := C.CString(library)
	defer C.free(unsafe.Pointer(path))
	var reason *C.char
	d := &Domain{api: C.slc_ops_api(path, &reason), kernels: k}
	if d.api == nil {
		return nil, fmt.Errorf("ops: %s: %s", library, C.GoString(reason))
	}
	d.handle = cgo.NewHandle(d)
	status := C.slc_ops_register(d.api, (*C.OrtSessionOptions)(field.UnsafePointer()), C.uintptr_t(d.handle), &d.domain)
	if err := failure(d.api, status); err != nil {
		d.handle.Delete()
		return nil, fmt.Errorf("ops: %w", err)
	}
	return d, nil
}

// ISA returns the name of the instruction set of the operators. With AMX the name also says what is multiplied with 8
// bits (coded) and what is not: "amx" alone names vectors that were computed there with AVX-512.
func (d *Domain) ISA(coded bool) string {
	switch name := d.kernels.String(); {
	case name != cpu.AMX.String():
		return name
	case coded:
		return "amx-bf16"
	}
	return "amx-int24"
}

// Close frees the operators.
func (d *Domain) Close() {
	C.slc_ops_free(d.api, d.domain)
	d.handle.Delete()
	d.closeHelpers()
}

// failure converts a status to an error, and frees the status.
func failure(api *C.OrtApi, status *C.OrtStatus) error {
	if status == nil {
		return nil
	}
	var text [512]C.char
	C.slc_ops_text(api, status, &text[0], C.size_t(len(text)))
	return errors.New(C.GoString(&text[0]))
}

// status converts an error to a status, which ONNX Runtime frees.
func status(api *C.OrtApi, err error) *C.OrtStatus {
	text := C.CString(err.Error())
	defer C.free(unsafe.Pointer(text))
	return C.slc_ops_failure(api, text)
}

// operator is the code of one node of a graph. It is called by several threads concurrently.
type operator interface{ compute(c *call) error }

var constructors = [C.SLC_OPS]func(*node) (operator, error){
	C.SLC_OPS_LINEAR:      newLinear,
	C.SLC_OPS_LINEAR_NORM: newLinearNorm,
	C.SLC_OPS_LAYER:       newLayer,
	C.SLC_OPS_POOL:        newPool,

	C.SLC_OPS_DISENTANGLED: newDisentangled,
}

// kernel is the handle that ONNX Runtime holds for a node.
type kernel struct {
	operator
	domain *Domain
}

//export sluiceCreateKernel
func sluiceCreateKernel(
	owner C.uintptr_t, op C.int32_t, api *C.OrtApi, info *C.OrtKernelInfo, to *C.uintptr_t,
) *C.OrtStatus {
	d := cgo.Handle(owner).Value().(*Domain)
	o, err := constructors[op](&node{d, info})
	if err != nil {
		return status(api, err)
	}
	*to = C.uintptr_t(cgo.NewHandle(&kernel{o, d}))
	return nil
}

//export sluiceCompute
func sluiceCompute(handle C.uintptr_t, context *C.OrtKernelContext, helper C.int32_t) *C.OrtStatus {
	k := cgo.Handle(handle).Value().(*kernel)
	c, _ := k.domain.calls.Get().(*call)
	if c == nil {
		c = &call{domain: k.domain}
	}
	c.context = context
	if helper > 0 {
		h := &k.domain.helpers[helper-1]
		h.leaveIfAsked()
		c.helper = h.Helper
	}
	err := c.read()
	if err == nil {
		err = k.compute(c)
	}
	c.in, c.data, c.helper = [maxInputs]C.slc_ops_tensor{}, nil, nil // drop pointers into Go's memory
	k.domain.calls.Put(c)
	if err != nil {
		return status(k.domain.api, err)
	}
	return nil
}

//export sluiceDestroyKernel
func sluiceDestroyKernel(handle C.uintptr_t) { cgo.Handle(handle).Delete() }

// node is a node of a graph while its kernel is created.
type node struct {
	*Domain
	info *C.OrtKernelInfo
}

func (n *node) inputs() (int, error) {
	var count C.size_t
	err := failure(n.api, C.slc_ops_inputs(n.api, n.info, &count))
	return int(count), err
}

// constant returns the value of a constant input as rows; a vector is one row. It is valid until the kernel is
// created.
func (n *node) constant(index int) (cpu.Rows, error) {
	var t C.slc_ops_tensor
	if err := failure(n.api, C.slc_ops_constant(n.api, n.info, C.size_t(index), &t)); err != nil {
		return cpu.Rows{}, err
	}
	if t.data == nil || t._type != C.ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT || t.rank < 1 || t.rank > 2 {
		return cpu.Rows{}, fmt.Errorf("input %d is no constant vector or matrix of float32", index)
	}
	r := cpu.Rows{N: 1, Dim: int(t.dims[t.rank-1]), Stride: int(t.dims[t.rank-1])}
	if t.rank == 2 {
		r.N = int(t.dims[0])
	}
	r.Data = unsafe.Slice((*float32)(t.data), r.N*r.Dim)
	return r, nil
}

func (n *node) int(name string) (int, error) {
	key := C.CString(name)
	defer C.free(unsafe.Pointer(key))
	var v C.int64_t
	err := failure(n.api, C.slc_ops_int(n.api, n.info, key, &v))
	return int(v), err
}

func (n *node) float(name string) (float32, error) {
	key := C.CString(name)
	defer C.free(unsafe.Pointer(key))
	var v C.float
	err := failure(n.api, C.slc_ops_float(n.api, n.info, key, &v))
	return float32(v), err
}

// maxInputs is the largest number of inputs that are read in a call: inputs that change from call to call come first,
// and the constants after them are already packed.
const maxInputs = 2

// call is one call of an operator.
type call struct {
	domain  *Domain
	context *C.OrtKernelContext
	n       int
	in      [maxInputs]C.slc_ops_tensor
	scratch []float32 // for products
	memory  []float32 // for intermediate results between the products of a layer
	codes   [2]encoder.Codes
	helper  *encoder.Helper // nil: no helper

	// Values that C reads and writes: variables on Go's stack would be allocated on each call.
	count C.size_t
	dims  [2]C.int64_t
	data  *C.float
}

func (c *call) read() error {
	err := failure(c.domain.api, C.slc_ops_arguments(c.domain.api, c.context, &c.in[0], maxInputs, &c.count))
	c.n = min(int(c.count), maxInputs)
	return err
}

// room returns the first n values of a buffer, and enlarges the buffer if it is too small.
func room(memory *[]float32, n int) []float32 {
	if len(*memory) < n {
		*memory = make([]float32, n)
	}
	return (*memory)[:n]
}

// rows returns an input of float32 rows.
func (c *call) rows(index int) (cpu.Rows, error) {
	t := &c.in[index]
	if index >= c.n || t._type != C.ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT || t.rank != 2 {
		return cpu.Rows{}, fmt.Errorf("input %d is no matrix of float32", index)
	}
	n, dim := int(t.dims[0]), int(t.dims[1])
	return cpu.Rows{Data: unsafe.Slice((*float32)(t.data), n*dim), N: n, Dim: dim, Stride: dim}, nil
}

// starts returns an input of int64 with the start of each text and the end of the last one; rows is the number of
// rows.
func (c *call) starts(index, rows int) ([]int64, error) {
	t := &c.in[index]
	if index >= c.n || t._type != C.ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 || t.rank != 1 || t.dims[0] < 1 {
		return nil, fmt.Errorf("input %d is no vector of int64", index)
	}
	s := unsafe.Slice((*int64)(t.data), int(t.dims[0]))
	if s[0] != 0 || s[len(s)-1] != int64(rows) {
		return nil, fmt.Errorf("texts from row %d to %d of %d", s[0], s[len(s)-1], rows)
	}
	for i := range s[1:] {
		if s[i] > s[i+1] {
			return nil, fmt.Errorf("text %d goes from row %d to row %d", i, s[i], s[i+1])
		}
	}
	return s, nil
}

// texts returns the first two inputs of most operators: the rows of all texts, and the start of each text.
func (c *call) texts() (rows cpu.Rows, starts []int64, err error) {
	if rows, err = c.rows(0); err != nil {
		return rows, nil, err
	}
	starts, err = c.starts(1, rows.N)
	return rows, starts, err
}

// result returns the output, n rows of dim values.
func (c *call) result(n, dim int) ([]float32, error) {
	c.dims, c.data = [2]C.int64_t{C.int64_t(n), C.int64_t(dim)}, nil
	err := failure(c.domain.api, C.slc_ops_result(c.domain.api, c.context, &c.dims[0], 2, &c.data))
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(c.data)), n*dim), nil
}
