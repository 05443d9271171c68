//go:build cgo && (amd64 || arm64)

package tiles

/*
#cgo noescape slc_pack
#cgo nocallback slc_pack
#include "pack.h"
*/
import "C"

import (
	"unsafe"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/slc"
)

// Has tells whether this instruction set has tile kernels of the type; all have F32.
func Has(k cpu.Kernels, t kernels.DType) bool {
	if k.ISA() == cpu.Go {
		return t == kernels.F32
	}
	return C.slc_panel_bytes(C.int32_t(k.ISA()), C.int32_t(t), 1) > 0
}

func panelBytes(k cpu.Kernels, t kernels.DType, dim int) int {
	if k.ISA() == cpu.Go {
		return 4 * Panel * dim
	}
	return int(C.slc_panel_bytes(C.int32_t(k.ISA()), C.int32_t(t), C.int64_t(dim)))
}

func pack(k cpu.Kernels, p *Panels, rows cpu.Rows, order []int32, from, to int) (Stats, error) {
	if k.ISA() == cpu.Go {
		return goPack(p, rows, order, from, to), nil
	}
	var e C.slc_error
	var found [4]C.double
	norms := rows.Norms
	if p.Metric != kernels.Cosine {
		norms = nil
	}
	code := C.slc_pack(C.int32_t(k.ISA()), C.int32_t(p.DType), floats(rows.Data), doubles(norms), int32s(order),
		C.int64_t(rows.Stride), C.int64_t(p.N), C.int64_t(p.Dim), C.int64_t(from), C.int64_t(to), C.double(p.Scale),
		unsafe.Pointer(unsafe.SliceData(p.data)), floats(p.terms), floats(p.steps), int32s(p.sums),
		C.int32_t(p.Side), &found[0], &e)
	return Stats{Norm: float64(found[0]), Residual: float64(found[1]), Low: float64(found[2]), Short: found[3] != 0},
		slc.Error(code, e.text[:])
}
