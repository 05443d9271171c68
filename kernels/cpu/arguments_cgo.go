//go:build cgo && (amd64 || arm64)

package cpu

// #include "slc.h"
import "C"

import (
	"fmt"
	"strings"
	"unsafe"

	"github.com/sluice-rag/sluice/kernels"
)

// What turns Go's memory into C arguments, and C's codes into errors.

func flag(b bool) C.int32_t {
	if b {
		return 1
	}
	return 0
}

func int32s(s []int32) *C.int32_t { return (*C.int32_t)(unsafe.Pointer(unsafe.SliceData(s))) }
func int64s(s []int64) *C.int64_t { return (*C.int64_t)(unsafe.Pointer(unsafe.SliceData(s))) }

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
