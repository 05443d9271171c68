//go:build cgo && (amd64 || arm64)

package scan

/*
#cgo CFLAGS: -std=c11 -O3 -g1 -Wall -Wextra -I${SRCDIR}/../slc
#cgo amd64,!noamx CFLAGS: -DSLC_WITH_AMX
#cgo LDFLAGS: -lm
#cgo noescape slc_scan
#cgo nocallback slc_scan
#include "scan.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/slc"
)

func scan(k cpu.Kernels, c *Chunk, q *Queries, steps []uint8, first int, need []float32, b *Bias, w *Scratch) (int,
	error) {
	if k.ISA() == cpu.Go {
		return 0, fmt.Errorf("%w: %s has no scan", kernels.ErrISA, k.ISA())
	}
	var e C.slc_error
	var found C.int64_t
	code := C.slc_scan(C.int32_t(k.ISA()), (*C.uint8_t)(unsafe.SliceData(c.codes)), floats(c.meta), floats(c.terms),
		C.int64_t(c.Panels), C.int64_t(c.Sections), (*C.int8_t)(unsafe.Pointer(unsafe.SliceData(q.q8))),
		(*C.int32_t)(unsafe.Pointer(unsafe.SliceData(q.sums))), floats(q.weights), C.int64_t(q.N), C.int64_t(q.room),
		(*C.uint8_t)(unsafe.SliceData(steps)), C.int64_t(len(steps)), C.int64_t(first), floats(need),
		floats(b.Rows), C.uint64_t(b.Queries), floats(b.Lift[:]), floats(w.acc),
		(*C.uint32_t)(unsafe.Pointer(unsafe.SliceData(w.found))), floats(w.lines), &found,
		(*C.int64_t)(unsafe.Pointer(&w.Alive[0])), &e)
	return int(found), slc.Error(code, e.text[:])
}

func floats(s []float32) *C.float { return slc.Pointer[C.float](s) }
