//go:build cgo && (amd64 || arm64)

package cpu

/*
#cgo noescape slc_gelu_slope
#cgo nocallback slc_gelu_slope
#cgo noescape slc_adam
#cgo nocallback slc_adam
#include "training.h"
*/
import "C"

func (k Kernels) geluSlope(x, slope []float32) error {
	if k.isa == Go {
		goGELUSlope(x, slope)
		return nil
	}
	var e C.slc_error
	code := C.slc_gelu_slope(C.int32_t(k.isa), floats(x), floats(slope), C.int64_t(len(x)), &e)
	return failure(code, &e)
}

func (k Kernels) adam(w, g, m, v []float32, s AdamStep) error {
	if k.isa == Go {
		goAdam(w, g, m, v, s)
		return nil
	}
	step := C.slc_adam_step{scale: C.float(s.Scale), beta1: C.float(s.Beta1), beta2: C.float(s.Beta2),
		rate: C.float(s.Rate), root: C.float(s.Root), epsilon: C.float(s.Epsilon), shrink: C.float(s.Shrink)}
	var e C.slc_error
	code := C.slc_adam(C.int32_t(k.isa), floats(w), floats(g), floats(m), floats(v), C.int64_t(len(w)), &step, &e)
	return failure(code, &e)
}
