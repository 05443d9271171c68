//go:build cgo && (amd64 || arm64)

package bitsets

/*
#cgo CFLAGS: -std=c11 -O3 -g1 -Wall -Wextra -I${SRCDIR}/../slc
#cgo noescape slc_bits
#cgo nocallback slc_bits
#include "bits.h"
*/
import "C"

import (
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/slc"
)

func run(k cpu.Kernels, sets []Set, steps []Step) (int, error) {
	if k.ISA() == cpu.Go {
		return goBits(sets, steps)
	}
	var e C.slc_error
	var count C.int64_t
	code := C.slc_bits(C.int32_t(k.ISA()), slc.Pointer[C.uint64_t](sets), C.int64_t(len(sets)),
		slc.Pointer[C.slc_bits_step](steps), C.int64_t(len(steps)), &count, &e)
	return int(count), slc.Error(code, e.text[:])
}
