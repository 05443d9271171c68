//go:build cgo && (amd64 || arm64)

package scores

/*
#cgo CFLAGS: -std=c11 -O3 -g1 -Wall -Wextra -I${SRCDIR}/../slc
#cgo LDFLAGS: -lm
#cgo noescape slc_scores
#cgo nocallback slc_scores
#cgo noescape slc_norms
#cgo nocallback slc_norms
#cgo noescape slc_finite
#cgo nocallback slc_finite
#cgo noescape slc_pairs
#cgo nocallback slc_pairs
#cgo noescape slc_estimate
#cgo nocallback slc_estimate
#cgo noescape slc_sum
#cgo nocallback slc_sum
#include "pairs.h"
#include "scores.h"
*/
import "C"

import (
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/slc"
)

func scores(k cpu.Kernels, m kernels.Metric, out []float64, stride int, a, b cpu.Rows) error {
	if k.ISA() == cpu.Go {
		refScores(m, out, stride, a, b)
		return nil
	}
	var e C.slc_error
	code := C.slc_scores(C.int32_t(k.ISA()), C.int32_t(m), rowsOf(a), rowsOf(b), C.int64_t(a.Dim), doubles(out),
		C.int64_t(stride), &e)
	return slc.Error(code, e.text[:])
}

func norms(k cpu.Kernels, out []float64, a cpu.Rows) error {
	if k.ISA() == cpu.Go {
		refNorms(out, a)
		return nil
	}
	var e C.slc_error
	code := C.slc_norms(C.int32_t(k.ISA()), rowsOf(a), C.int64_t(a.Dim), doubles(out), &e)
	return slc.Error(code, e.text[:])
}

func nonFinite(k cpu.Kernels, a cpu.Rows) (int, error) {
	if k.ISA() == cpu.Go {
		return refNonFinite(a), nil
	}
	var e C.slc_error
	var row C.int64_t
	code := C.slc_finite(C.int32_t(k.ISA()), rowsOf(a), C.int64_t(a.Dim), &row, &e)
	return int(row), slc.Error(code, e.text[:])
}

func floats(s []float32) *C.float   { return slc.Pointer[C.float](s) }
func doubles(s []float64) *C.double { return slc.Pointer[C.double](s) }
func int32s(s []int32) *C.int32_t   { return slc.Pointer[C.int32_t](s) }

func rowsOf(r cpu.Rows) C.slc_rows {
	return C.slc_rows{data: floats(r.Data), norms: doubles(r.Norms), n: C.int64_t(r.N), stride: C.int64_t(r.Stride)}
}

func pairs(k cpu.Kernels, m kernels.Metric, out []float64, a cpu.Rows, rowsA []int32, b cpu.Rows, rowsB []int32) error {
	if k.ISA() == cpu.Go {
		return refPairs(m, out, a, rowsA, b, rowsB)
	}
	var e C.slc_error
	code := C.slc_pairs(C.int32_t(k.ISA()), C.int32_t(m), rowsOf(a), int32s(rowsA), rowsOf(b), int32s(rowsB),
		C.int64_t(a.Dim), C.int64_t(len(rowsB)), doubles(out), &e)
	return slc.Error(code, e.text[:])
}

func estimate(k cpu.Kernels, m kernels.Metric, out []float32, a cpu.Rows, rowsA []int32, b cpu.Rows,
	rowsB []int32) error {
	if k.ISA() == cpu.Go {
		return refEstimate(m, out, a, rowsA, b, rowsB)
	}
	var e C.slc_error
	code := C.slc_estimate(C.int32_t(k.ISA()), C.int32_t(m), rowsOf(a), int32s(rowsA), rowsOf(b), int32s(rowsB),
		C.int64_t(a.Dim), C.int64_t(len(rowsA)), floats(out), &e)
	return slc.Error(code, e.text[:])
}

func sum(k cpu.Kernels, out []int64, a cpu.Rows, factor []float64, rows []int32) error {
	if k.ISA() == cpu.Go {
		return refSum(out, a, factor, rows)
	}
	var e C.slc_error
	code := C.slc_sum(C.int32_t(k.ISA()), rowsOf(a), C.int64_t(a.Dim), doubles(factor), int32s(rows),
		C.int64_t(len(rows)), slc.Pointer[C.int64_t](out), &e)
	return slc.Error(code, e.text[:])
}
