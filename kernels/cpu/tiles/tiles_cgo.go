//go:build cgo && (amd64 || arm64)

package tiles

/*
#cgo CFLAGS: -std=c11 -O3 -g1 -Wall -Wextra -I${SRCDIR}/../slc
#cgo amd64,!noamx CFLAGS: -DSLC_WITH_AMX
#cgo LDFLAGS: -lm
#cgo noescape slc_pack
#cgo nocallback slc_pack
#cgo noescape slc_count
#cgo nocallback slc_count
#cgo noescape slc_matrix
#cgo nocallback slc_matrix
#include "tiles.h"
*/
import "C"

import (
	"math"
	"unsafe"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/slc"
)

func count(k cpu.Kernels, c *Count, rows *Panels, row0, row1 int, columns *Panels, column0, column1 int) error {
	if k.ISA() == cpu.Go {
		return goCount(c, rows, row0, row1, columns, column0, column1)
	}
	var e C.slc_error
	found := C.slc_found{sum: C.slc_sum128{C.int64_t(c.Sum.Hi), C.uint64_t(c.Sum.Lo)},
		sum2: C.slc_sum128{C.int64_t(c.Sum2.Hi), C.uint64_t(c.Sum2.Lo)}}
	code := C.slc_count(C.int32_t(k.ISA()), C.int32_t(rows.DType), C.int64_t(rows.Dim),
		C.int64_t(cachedPanels(k, rows)),
		unsafe.Pointer(unsafe.SliceData(rows.data)), floats(rows.terms), floats(rows.steps), C.int64_t(rows.N),
		C.int64_t(row0), C.int64_t(row1),
		unsafe.Pointer(unsafe.SliceData(columns.data)), floats(columns.terms), floats(columns.steps),
		int32s(columns.sums), C.int64_t(columns.N), C.int64_t(column0), C.int64_t(column1),
		floats(c.Low), floats(c.High), C.int32_t(len(c.Low)), C.float(c.Min), C.float(c.Max), C.float(c.Margin),
		int32s(c.Own), int32s(c.RowGroup), int32s(c.ColumnGroup), flag(c.CrossGroup), flag(!c.NoBest),
		C.float(c.BinLow), C.float(c.BinScale), int64s(c.Bins), C.int64_t(len(c.Bins)),
		entries(c.Kept), C.int64_t(cap(c.Kept)), entries(c.Other), C.int64_t(cap(c.Other)), entries(c.All),
		C.int64_t(cap(c.All)),
		floats(c.BestOther), floats(c.BestAll), &found, &e)
	if err := slc.Error(code, e.text[:]); err != nil {
		return err
	}
	c.Counted += int64(found.counted)
	c.Sum, c.Sum2 = Sum{int64(found.sum.hi), uint64(found.sum.lo)}, Sum{int64(found.sum2.hi), uint64(found.sum2.lo)}
	for b := range c.Below { // a counted pair is below what it is not above
		c.Below[b] += int64(found.counted - found.above[b])
	}
	c.Kept, c.Other, c.All = c.Kept[:found.kept], c.Other[:found.other], c.All[:found.all]
	c.KeptFull = c.KeptFull || found.full&1 != 0
	c.OtherFull, c.AllFull = c.OtherFull || found.full&2 != 0, c.AllFull || found.full&4 != 0
	return nil
}

func matrix(k cpu.Kernels, out []float32, stride int, rows *Panels, row0, row1 int, columns *Panels, column0,
	column1 int) error {
	if k.ISA() == cpu.Go {
		goMatrix(out, stride, rows, row0, row1, columns, column0, column1)
		return nil
	}
	var e C.slc_error
	factor := 1 / (rows.Scale * columns.Scale)
	if rows.Metric == kernels.L2 {
		factor = 1 / rows.Scale
	}
	exact := math.Abs(math.Log2(factor)) <= 120 // the factor is a float32
	if !exact {
		factor = 1
	}
	// Results that leave the caches anyway are written around them.
	stream := (row1-row0)*Panel*stride*4 > 1<<20
	code := C.slc_matrix(C.int32_t(k.ISA()), C.int32_t(rows.DType), C.int64_t(rows.Dim),
		C.int64_t(cachedPanels(k, rows)),
		unsafe.Pointer(unsafe.SliceData(rows.data)), floats(rows.terms), floats(rows.steps), C.int64_t(rows.N),
		C.int64_t(row0), C.int64_t(row1),
		unsafe.Pointer(unsafe.SliceData(columns.data)), floats(columns.terms), floats(columns.steps),
		int32s(columns.sums), C.int64_t(columns.N), C.int64_t(column0), C.int64_t(column1),
		floats(out), C.int64_t(stride), C.float(factor), flag(rows.Metric == kernels.L2), flag(stream), &e)
	if !exact && code == C.SLC_OK {
		unscaleAll(out, stride, rows, row0, row1, columns, column0, column1)
	}
	return slc.Error(code, e.text[:])
}

// unscaleAll multiplies a matrix by a power of two that float32 does not hold.
func unscaleAll(out []float32, stride int, rows *Panels, row0, row1 int, columns *Panels, column0, column1 int) {
	factor := 1 / rows.Scale
	if rows.Metric == kernels.IP {
		factor /= columns.Scale
	}
	for i := range min(row1*Panel, rows.N) - row0*Panel {
		row := out[i*stride:][:min(column1*Panel, columns.N)-column0*Panel]
		for j, v := range row {
			row[j] = float32(float64(v) * factor)
		}
	}
}

// cachedPanels is how many panels of rows fill half of the second-level cache.
func cachedPanels(k cpu.Kernels, rows *Panels) int {
	half := secondLevel / 2
	if k.ISA() == cpu.AMX { // every core that has it has 2 MiB
		half = 1 << 20
	}
	return max(1, half/max(1, panelBytes(k, rows.DType, rows.Dim)))
}

// secondLevel is the least that a core of the machines we know has (Zen 2 and older: 512 KiB); a larger
// one gains nothing measurable (docs/adr/0006-tiles.md).
const secondLevel = 1 << 20

func entries(s []Entry) *C.slc_entry { return (*C.slc_entry)(unsafe.Pointer(unsafe.SliceData(s))) }

func floats(s []float32) *C.float   { return slc.Pointer[C.float](s) }
func doubles(s []float64) *C.double { return slc.Pointer[C.double](s) }
func int32s(s []int32) *C.int32_t   { return slc.Pointer[C.int32_t](s) }
func int64s(s []int64) *C.int64_t   { return slc.Pointer[C.int64_t](s) }

func flag(b bool) C.int32_t {
	if b {
		return 1
	}
	return 0
}
