//go:build cgo && (amd64 || arm64)

package scores

/*
#cgo noescape slc_pairs
#cgo nocallback slc_pairs
#cgo noescape slc_estimate
#cgo nocallback slc_estimate
#cgo noescape slc_sum
#cgo nocallback slc_sum
#include "pairs.h"
*/
import "C"

import (
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/slc"
)

func pairs(k cpu.Kernels, m kernels.Metric, out []float64, a cpu.Rows, rowsA []int32, b cpu.Rows, rowsB []int32) error {
	if k.ISA() == cpu.Go {
		return refPairs(m, out, a, rowsA, b, rowsB)
	}
	var e C.slc_error
	code := C.slc_pairs(C.int32_t(k.ISA()), C.int32_t(m),
		floats(a.Data), C.int64_t(a.N), C.int64_t(a.Stride), doubles(a.Norms), int32s(rowsA),
		floats(b.Data), C.int64_t(b.N), C.int64_t(b.Stride), doubles(b.Norms), int32s(rowsB),
		C.int64_t(a.Dim), C.int64_t(len(rowsB)), doubles(out), &e)
	return slc.Error(code, e.text[:])
}

func estimate(k cpu.Kernels, m kernels.Metric, out []float32, a cpu.Rows, rowsA []int32, b cpu.Rows,
	rowsB []int32) error {
	if k.ISA() == cpu.Go {
		return refEstimate(m, out, a, rowsA, b, rowsB)
	}
	var e C.slc_error
	code := C.slc_estimate(C.int32_t(k.ISA()), C.int32_t(m), floats(a.Data), C.int64_t(a.N), C.int64_t(a.Stride),
		int32s(rowsA),
		floats(b.Data), C.int64_t(b.N), C.int64_t(b.Stride), int32s(rowsB), C.int64_t(a.Dim), C.int64_t(len(rowsA)),
		floats(out), &e)
	return slc.Error(code, e.text[:])
}

func sum(k cpu.Kernels, out []float64, a cpu.Rows, factor []float64, rows []int32) error {
	if k.ISA() == cpu.Go {
		return refSum(out, a, factor, rows)
	}
	var e C.slc_error
	code := C.slc_sum(C.int32_t(k.ISA()), floats(a.Data), C.int64_t(a.N), C.int64_t(a.Stride), C.int64_t(a.Dim),
		doubles(factor),
		int32s(rows), C.int64_t(len(rows)), doubles(out), &e)
	return slc.Error(code, e.text[:])
}
