//go:build cgo && (amd64 || arm64)

package tiles

/*
#cgo CFLAGS: -std=c11 -O3 -g1 -Wall -Wextra -I${SRCDIR}/../slc
#cgo amd64,!noamx CFLAGS: -DSLC_WITH_AMX
#cgo LDFLAGS: -lm
#cgo noescape slc_count
#cgo nocallback slc_count
#cgo noescape slc_matrix
#cgo nocallback slc_matrix
#cgo noescape slc_pack
#cgo nocallback slc_pack
#include "pack.h"
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
	code := C.slc_count(C.int32_t(k.ISA()), C.int32_t(rows.DType),
		tilesOf(k, rows, row0, row1, columns, column0, column1), C.slc_counting{
			low: floats(c.Low), high: floats(c.High), min: C.float(c.Min), max: C.float(c.Max),
			margin: C.float(c.Margin), brackets: C.int32_t(len(c.Low)), cross_group: flag(c.CrossGroup),
			best: flag(!c.NoBest), own: int32s(c.Own), row_group: int32s(c.RowGroup),
			column_group: int32s(c.ColumnGroup), bin_low: C.float(c.BinLow), bin_scale: C.float(c.BinScale),
			bins: int64s(c.Bins), n_bins: C.int64_t(len(c.Bins)), kept: list(c.Kept), other: list(c.Other),
			all: list(c.All), best_other: floats(c.BestOther), best_all: floats(c.BestAll),
		}, &found, &e)
	if err := slc.Error(code, e.text[:]); err != nil {
		return err
	}
	c.Counted += int64(found.counted)
	c.Sum, c.Sum2 = Sum{int64(found.sum.hi), uint64(found.sum.lo)}, Sum{int64(found.sum2.hi), uint64(found.sum2.lo)}
	for b := range c.Below { // a counted pair is either above or below
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
	// Results larger than the caches are written around them.
	stream := (row1-row0)*Panel*stride*4 > 1<<20
	code := C.slc_matrix(C.int32_t(k.ISA()), C.int32_t(rows.DType),
		tilesOf(k, rows, row0, row1, columns, column0, column1), C.slc_writer{
			out: floats(out), stride: C.int64_t(stride), factor: C.float(factor), l2: flag(rows.Metric == kernels.L2),
			stream: flag(stream),
		}, &e)
	if !exact && code == C.SLC_OK {
		unscaleAll(out, stride, rows, row0, row1, columns, column0, column1)
	}
	return slc.Error(code, e.text[:])
}

// unscaleAll multiplies a matrix by a power of two that float32 cannot represent.
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

// cachedPanels returns the number of panels of rows that fill half of the second-level cache.
func cachedPanels(k cpu.Kernels, rows *Panels) int {
	half := secondLevel / 2
	if k.ISA() == cpu.AMX { // every core that has it has 2 MiB
		half = 1 << 20
	}
	return max(1, half/max(1, panelBytes(k, rows.DType, rows.Dim)))
}

// secondLevel is the smallest cache per core of the supported machines (Zen 2 and older: 512 KiB); larger values gave
// no measurable gain (docs/adr/0002-tiles.md).
const secondLevel = 1 << 20

// tilesOf returns the panels of a call.
func tilesOf(k cpu.Kernels, rows *Panels, row0, row1 int, columns *Panels, column0, column1 int) C.slc_tiles {
	return C.slc_tiles{rows: rows.side(row0, row1), columns: columns.side(column0, column1), dim: C.int64_t(rows.Dim),
		block: C.int64_t(cachedPanels(k, rows))}
}

func (p *Panels) side(from, to int) C.slc_side {
	return C.slc_side{data: unsafe.Pointer(unsafe.SliceData(p.data)), terms: floats(p.terms), steps: floats(p.steps),
		sums: int32s(p.sums), n: C.int64_t(p.N), from: C.int64_t(from), to: C.int64_t(to)}
}

// list returns an empty list with the capacity of s.
func list(s []Entry) C.slc_list {
	return C.slc_list{entries: slc.Pointer[C.slc_entry](s), capacity: C.int64_t(cap(s))}
}

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

// Has reports whether this instruction set has tile kernels of the type; all have F32.
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
	code := C.slc_pack(C.int32_t(k.ISA()), C.int32_t(p.DType), C.slc_packing{rows: floats(rows.Data),
		norms: doubles(norms), order: int32s(order), stride: C.int64_t(rows.Stride), n: C.int64_t(p.N),
		dim: C.int64_t(p.Dim), from: C.int64_t(from), to: C.int64_t(to), scale: C.double(p.Scale),
		data: unsafe.Pointer(unsafe.SliceData(p.data)), terms: floats(p.terms), steps: floats(p.steps),
		sums: int32s(p.sums), right: C.int32_t(p.Side)}, &found[0], &e)
	return Stats{Norm: float64(found[0]), Residual: float64(found[1]), Low: float64(found[2]), Short: found[3] != 0},
		slc.Error(code, e.text[:])
}
