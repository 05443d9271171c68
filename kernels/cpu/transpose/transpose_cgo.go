//go:build cgo && (amd64 || arm64)

package transpose

/*
#cgo CFLAGS: -std=c11 -O3 -g1 -Wall -Wextra -I${SRCDIR}/../slc
#cgo noescape slc_transpose
#cgo nocallback slc_transpose
#include "transpose.h"
*/
import "C"

import (
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/slc"
)

func transpose(k cpu.Kernels, to []float32, stride int, a cpu.Rows) error {
	if k.ISA() == cpu.Go {
		goTranspose(to, stride, a)
		return nil
	}
	var e C.slc_error
	code := C.slc_transpose(floats(to), C.int64_t(stride), floats(a.Data), C.int64_t(a.Stride), C.int64_t(a.N),
		C.int64_t(a.Dim), &e)
	return slc.Error(code, e.text[:])
}

func floats(s []float32) *C.float { return slc.Pointer[C.float](s) }
