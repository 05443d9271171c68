//go:build cgo && amd64

package ladder

// #include "ladder.h"
import "C"

import (
	"runtime"
	"unsafe"
)

// Pairs holds n rows and m columns (multiples of 32) and the limits: for each, the products below it are counted.
type Pairs struct {
	Rows, Columns []float32 // rows of Dim, or panels
	N, M, Dim     int
	Limits        [C.LADDER_LIMITS]float32
}

// Step is one way to count.
type Step int

// The steps, slowest first. Panels and Signs take panels.
const (
	Dot Step = iota
	Lanes
	Panels
	Signs
)

// Count counts the pairs below each limit.
func (p Pairs) Count(s Step) (below [C.LADDER_LIMITS]int64) {
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&p.Rows[0])
	pin.Pin(&p.Columns[0])
	limits, counts := p.Limits, [C.LADDER_LIMITS]int64{}
	pin.Pin(&limits[0])
	pin.Pin(&counts[0])
	c := C.ladder_pairs{(*C.float)(&p.Rows[0]), (*C.float)(&p.Columns[0]), C.int64_t(p.N), C.int64_t(p.M),
		C.int64_t(p.Dim),
		(*C.float)(&limits[0]), (*C.int64_t)(unsafe.Pointer(&counts[0]))}
	switch s {
	case Dot:
		C.ladder_dot(&c)
	case Lanes:
		C.ladder_lanes(&c)
	case Panels:
		C.ladder_panels(&c)
	default:
		C.ladder_signs(&c)
	}
	return counts
}

// PeakF32 and PeakI8 do n rounds of multiply-adds on registers, and return the number of operations.
func PeakF32(n int) float64 { return float64(C.ladder_peak_f32(C.int64_t(n))) }

// PeakI8 is PeakF32 with four 8-bit products per lane.
func PeakI8(n int) float64 { return float64(C.ladder_peak_i8(C.int64_t(n))) }
