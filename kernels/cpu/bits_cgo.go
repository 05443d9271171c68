//go:build cgo && (amd64 || arm64)

package cpu

/*
#cgo noescape slc_bits
#cgo nocallback slc_bits
#include "bits.h"
*/
import "C"

import "unsafe"

func (k Kernels) bits(sets []BitSet, steps []BitStep) (int, error) {
	if k.isa == Go {
		return goBits(sets, steps)
	}
	var e C.slc_error
	var count C.int64_t
	code := C.slc_bits(C.int32_t(k.isa), (*C.uint64_t)(unsafe.Pointer(unsafe.SliceData(sets))), C.int64_t(len(sets)),
		(*C.slc_bits_step)(unsafe.Pointer(unsafe.SliceData(steps))), C.int64_t(len(steps)), &count, &e)
	return int(count), failure(code, &e)
}
