//go:build cgo && (amd64 || arm64)

package cpu

/*
#cgo noescape slc_transpose
#cgo nocallback slc_transpose
#include "transpose.h"
*/
import "C"

func (k Kernels) transpose(to []float32, stride int, a Rows) error {
	if k.isa == Go {
		goTranspose(to, stride, a)
		return nil
	}
	var e C.slc_error
	code := C.slc_transpose(floats(to), C.int64_t(stride), floats(a.Data), C.int64_t(a.Stride), C.int64_t(a.N),
		C.int64_t(a.Dim), &e)
	return failure(code, &e)
}
