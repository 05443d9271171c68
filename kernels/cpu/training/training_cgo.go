//go:build cgo && (amd64 || arm64)

package training

/*
#cgo CFLAGS: -std=c11 -O3 -g1 -Wall -Wextra -I${SRCDIR}/../slc
#cgo LDFLAGS: -lm
#cgo noescape slc_gelu_slope
#cgo nocallback slc_gelu_slope
#cgo noescape slc_adam
#cgo nocallback slc_adam
#cgo noescape slc_attended_head_scratch
#cgo nocallback slc_attended_head_scratch
#cgo noescape slc_attend
#cgo nocallback slc_attend
#cgo noescape slc_attend_back
#cgo nocallback slc_attend_back
#include "training.h"
*/
import "C"

import (
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/slc"
)

func geluSlope(k cpu.Kernels, x, slope []float32) error {
	if k.ISA() == cpu.Go {
		goGELUSlope(x, slope)
		return nil
	}
	var e C.slc_error
	code := C.slc_gelu_slope(C.int32_t(k.ISA()), floats(x), floats(slope), C.int64_t(len(x)), &e)
	return slc.Error(code, e.text[:])
}

func adam(k cpu.Kernels, w, g, m, v []float32, s AdamStep) error {
	if k.ISA() == cpu.Go {
		goAdam(w, g, m, v, s)
		return nil
	}
	step := C.slc_adam_step{scale: C.float(s.Scale), beta1: C.float(s.Beta1), beta2: C.float(s.Beta2),
		rate: C.float(s.Rate), root: C.float(s.Root), epsilon: C.float(s.Epsilon), shrink: C.float(s.Shrink)}
	var e C.slc_error
	code := C.slc_adam(C.int32_t(k.ISA()), floats(w), floats(g), floats(m), floats(v), C.int64_t(len(w)), &step, &e)
	return slc.Error(code, e.text[:])
}

// native converts a for C, and grows scratch to the required size.
func (a AttendedHead) native(scratch *[]float32) (C.slc_attended_head, []float32) {
	c := C.slc_attended_head{queries: C.int64_t(a.Queries), length: C.int64_t(a.Length), dim: C.int64_t(a.Dim),
		q_stride: C.int64_t(a.QStride), kv_stride: C.int64_t(a.KVStride), scale: C.float(a.Scale)}
	if n := int(C.slc_attended_head_scratch(&c)); len(*scratch) < n {
		*scratch = make([]float32, n)
	}
	return c, *scratch
}

func attend(k cpu.Kernels, a AttendedHead, q, key, value, bias, p, context []float32, scratch *[]float32) error {
	if k.ISA() == cpu.Go {
		goAttendHead(a, q, key, value, bias, p, context)
		return nil
	}
	var e C.slc_error
	c, room := a.native(scratch)
	code := C.slc_attend(C.int32_t(k.ISA()), &c, floats(q), floats(key), floats(value),
		floats(bias[len(bias)/2:]), floats(p), floats(context), floats(room), &e)
	return slc.Error(code, e.text[:])
}

func attendBack(k cpu.Kernels, a AttendedHead, q, key, value, p, dContext, dq, dk, dv []float32,
	scratch *[]float32) error {
	if k.ISA() == cpu.Go {
		goAttendHeadBack(a, q, key, value, p, dContext, dq, dk, dv)
		return nil
	}
	var e C.slc_error
	c, room := a.native(scratch)
	code := C.slc_attend_back(C.int32_t(k.ISA()), &c, floats(q), floats(key), floats(value), floats(p),
		floats(dContext), floats(dq), floats(dk), floats(dv), floats(room), &e)
	return slc.Error(code, e.text[:])
}

func floats(s []float32) *C.float { return slc.Pointer[C.float](s) }
