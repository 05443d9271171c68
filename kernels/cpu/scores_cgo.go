//go:build cgo && (amd64 || arm64)

package cpu

// -std=c11 is what keeps gcc from contracting x*y+z into FMA on its own: cgo lets a package set the
// standard, but not -ffp-contract. TestContractionIsOff watches it. -g1 keeps functions and lines for profilers; places
// of variables (-g) take a sixth of the compilation.

/*
#cgo CFLAGS: -std=c11 -O3 -g1 -Wall -Wextra
#cgo LDFLAGS: -lm
#cgo noescape slc_scores
#cgo nocallback slc_scores
#cgo noescape slc_norms
#cgo nocallback slc_norms
#cgo noescape slc_finite
#cgo nocallback slc_finite
#include "scores.h"
*/
import "C"

import "github.com/sluice-rag/sluice/kernels"

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
	code := C.slc_norms(C.int32_t(k.isa), floats(a.Data), C.int64_t(a.N), C.int64_t(a.Stride), C.int64_t(a.Dim),
		doubles(out), &e)
	return failure(code, &e)
}

func (k Kernels) nonFinite(a Rows) (int, error) {
	if k.isa == Go {
		return refNonFinite(a), nil
	}
	var e C.slc_error
	var row C.int64_t
	code := C.slc_finite(C.int32_t(k.isa), floats(a.Data), C.int64_t(a.N), C.int64_t(a.Stride), C.int64_t(a.Dim), &row,
		&e)
	return int(row), failure(code, &e)
}
