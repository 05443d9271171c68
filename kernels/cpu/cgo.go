//go:build cgo && (amd64 || arm64)

package cpu

// -std=c11 is what keeps gcc from contracting x*y+z into FMA on its own: cgo lets a package set the
// standard, but not -ffp-contract. TestContractionIsOff watches it.

/*
#cgo CFLAGS: -std=c11 -O3 -Wall -Wextra
#cgo LDFLAGS: -lm
#cgo noescape slc_scores
#cgo nocallback slc_scores
#cgo noescape slc_norms
#cgo nocallback slc_norms
#cgo noescape slc_finite
#cgo nocallback slc_finite
#include "slc.h"
*/
import "C"

import (
	"fmt"
	"strings"
	"unsafe"

	"github.com/sluice-rag/sluice/kernels"
)

// Available lists the instruction sets of this build on this machine, best first.
func Available() []ISA { return append(extensions(), Scalar, Go) }

func (k Kernels) scores(m kernels.Metric, out []float64, stride int, a, b Rows) error {
	if k.isa == Go {
		refScores(m, out, stride, a, b)
		return nil
	}
	var e C.slc_error
	code := C.slc_scores(C.int32_t(k.isa), C.int32_t(m),
		floats(a.Data), C.int64_t(a.N), C.int64_t(a.Stride), doubles(a.Norms),
		floats(b.Data), C.int64_t(b.N), C.int64_t(b.Stride), doubles(b.Norms),
		C.int64_t(a.Dim), doubles(out), C.int64_t(stride), &e)
	return failure(code, &e)
}

func (k Kernels) norms(out []float64, a Rows) error {
	if k.isa == Go {
		refNorms(out, a)
		return nil
	}
	var e C.slc_error
	code := C.slc_norms(C.int32_t(k.isa), floats(a.Data), C.int64_t(a.N), C.int64_t(a.Stride), C.int64_t(a.Dim), doubles(out), &e)
	return failure(code, &e)
}

func (k Kernels) nonFinite(a Rows) (int, error) {
	if k.isa == Go {
		return refNonFinite(a), nil
	}
	var e C.slc_error
	var row C.int64_t
	code := C.slc_finite(C.int32_t(k.isa), floats(a.Data), C.int64_t(a.N), C.int64_t(a.Stride), C.int64_t(a.Dim), &row, &e)
	return int(row), failure(code, &e)
}

func floats(s []float32) *C.float   { return (*C.float)(unsafe.Pointer(unsafe.SliceData(s))) }
func doubles(s []float64) *C.double { return (*C.double)(unsafe.Pointer(unsafe.SliceData(s))) }

// failure turns a code and its text, which came back from the same call, into an error.
func failure(code C.int32_t, e *C.slc_error) error {
	if code == C.SLC_OK {
		return nil
	}
	sentinel := kernels.ErrShape
	switch code {
	case C.SLC_ERROR_METRIC:
		sentinel = kernels.ErrMetric
	case C.SLC_ERROR_ISA:
		sentinel = kernels.ErrISA
	case C.SLC_ERROR_RANGE:
		sentinel = kernels.ErrRange
	}
	var text strings.Builder // not C.GoString, which would move every call's slc_error to the heap
	for _, c := range e.text {
		if c == 0 {
			break
		}
		text.WriteByte(byte(c))
	}
	return fmt.Errorf("%w: %s", sentinel, text.String())
}
