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
	code := C.slc_scan(C.int32_t(k.ISA()), C.slc_scan_call{codes: slc.Pointer[C.uint8_t](c.codes), meta: floats(c.meta),
		terms: floats(c.terms), panels: C.int64_t(c.Panels), sections: C.int64_t(c.Sections),
		q8: slc.Pointer[C.int8_t](q.q8), sums: slc.Pointer[C.int32_t](q.sums), weights: floats(q.weights),
		queries: C.int64_t(q.N), room: C.int64_t(q.room), steps: slc.Pointer[C.uint8_t](steps),
		step_count: C.int64_t(len(steps)), first: C.int64_t(first), need: floats(need), bias: floats(b.Rows),
		biased: C.uint64_t(b.Queries), lift: floats(b.Lift[:]), acc: floats(w.acc),
		found: slc.Pointer[C.uint32_t](w.found), bounds: floats(w.lines), alive: slc.Pointer[C.int64_t](w.Alive[:]),
	}, &found, &e)
	return int(found), slc.Error(code, e.text[:])
}

func floats(s []float32) *C.float { return slc.Pointer[C.float](s) }
