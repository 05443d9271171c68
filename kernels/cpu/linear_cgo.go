//go:build cgo && (amd64 || arm64)

package cpu

/*
#cgo noescape slc_linear_pack_f32
#cgo nocallback slc_linear_pack_f32
#cgo noescape slc_linear_pack_i8
#cgo nocallback slc_linear_pack_i8
#cgo noescape slc_codes_i8
#cgo nocallback slc_codes_i8
#cgo noescape slc_layer_norm_f32
#cgo nocallback slc_layer_norm_f32
#include "attention.h"
#include "layer_norm.h"
#include "linear.h"

// Pointers as arguments, so that no structure in Go's memory holds pointers to it.
static int32_t linear(int32_t isa, slc_linear l, const float *x, const float *weights, const float *bias,
                      const float *residual, float *y, float *scratch, const void *after, slc_error *error) {
	l.after = after, l.x = x, l.weights = weights, l.bias = bias, l.residual = residual, l.y = y, l.scratch = scratch;
	return slc_linear_f32(isa, &l, error);
}

static int32_t linear_codes(int32_t isa, slc_linear l, const uint8_t *codes, const float *steps, const void *weights,
                            const float *bias, const float *residual, float *y, const void *after,
                            slc_error *error) {
	l.codes = codes, l.steps = steps, l.weights = weights, l.after = after;
	l.bias = bias, l.residual = residual, l.y = y;
	return slc_linear_i8(isa, &l, error);
}

static int32_t attention(int32_t isa, slc_attention a, const float *qkv, const int64_t *starts, const float *bias,
                         float *y, float *scratch, int32_t coded, slc_error *error) {
	a.qkv = qkv, a.starts = starts, a.bias = bias, a.y = y, a.scratch = scratch;
	return coded ? slc_attention_i8(isa, &a, error) : slc_attention_f32(isa, &a, error);
}
#cgo noescape linear
#cgo nocallback linear
#cgo noescape linear_codes
#cgo nocallback linear_codes
#cgo noescape attention
#cgo nocallback attention
*/
import "C"

import "unsafe"

// linearISA is the instruction set that linear.h's functions are called with.
func (k Kernels) linearISA() C.int32_t {
	switch {
	case k.products == emulatedAMX:
		return C.SLC_AMX_EMULATED
	case k.products == winograd && k.isa == AVX2:
		return C.SLC_AVX2_WINOGRAD
	case k.products == winograd:
		return C.SLC_AVX512VNNI_WINOGRAD
	}
	return C.int32_t(k.isa)
}

func (k Kernels) panel() int {
	if k.isa == Go {
		return goPanel
	}
	return int(C.slc_linear_panel(k.linearISA()))
}

func (k Kernels) weightSize(w *Weights) int {
	if k.isa == Go {
		return w.Out * w.In
	}
	return int(C.slc_linear_bytes_f32(k.linearISA(), C.int64_t(w.Out), C.int64_t(w.In))) / 4
}

func (k Kernels) linearScratch(rows, inputs int) int {
	if k.isa == Go {
		return 0
	}
	return int(C.slc_linear_scratch_f32(k.linearISA(), C.int64_t(rows), C.int64_t(inputs)))
}

func (k Kernels) packWeights(to []float32, a Rows) error {
	if k.isa == Go {
		goPackWeights(to, a)
		return nil
	}
	var e C.slc_error
	code := C.slc_linear_pack_f32(k.linearISA(), unsafe.Pointer(unsafe.SliceData(to)), floats(a.Data),
		C.int64_t(a.Stride), C.int64_t(a.N), C.int64_t(a.Dim), &e)
	return failure(code, &e)
}

func (k Kernels) linear(l *Linear) error {
	if k.isa == Go {
		goLinear(l)
		return nil
	}
	var e C.slc_error
	code := C.linear(k.linearISA(), arguments(l, l.X.N, l.X.Stride), floats(l.X.Data), floats(l.Weights.data),
		floats(l.Bias), floats(l.Residual), floats(l.Y), floats(l.Scratch), l.after(), &e)
	return failure(code, &e)
}

// after is where the panel begins that is computed next.
func (l *Linear) after() unsafe.Pointer {
	w := l.After
	if w == nil || l.AfterPanel < 0 || l.AfterPanel >= w.Panels() {
		return nil
	}
	if w.codes != nil {
		return unsafe.Pointer(&w.codes[len(w.codes)/w.Panels()*l.AfterPanel])
	}
	return unsafe.Pointer(&w.data[len(w.data)/w.Panels()*l.AfterPanel])
}

// arguments are those of a product but the pointers.
func arguments(l *Linear, n, stride int) C.slc_linear {
	return C.slc_linear{
		rows: C.int64_t(n), x_stride: C.int64_t(stride), in: C.int64_t(l.Weights.In),
		out: C.int64_t(l.Weights.Out), residual_stride: C.int64_t(l.Stride), y_stride: C.int64_t(l.Stride),
		first: C.int64_t(l.First), last: C.int64_t(l.Last), activation: C.int32_t(l.Activation),
	}
}

func (k Kernels) codePanel() int {
	if k.isa == Go {
		return goPanel
	}
	return int(C.slc_linear_panel_i8(k.linearISA()))
}

// codeSize is the bytes of an input's code.
func (k Kernels) codeSize() int {
	if k.isa == Go {
		return 1
	}
	return int(C.slc_code_bytes(k.linearISA()))
}

func (k Kernels) codeBytes(w *Weights) int {
	if k.isa == Go {
		return goCodeBytes(w)
	}
	return int(C.slc_linear_bytes_i8(k.linearISA(), C.int64_t(w.Out), C.int64_t(w.In)))
}

func (k Kernels) packCodes(to []byte, a Rows) error {
	if k.isa == Go {
		goPackCodes(to, a)
		return nil
	}
	var e C.slc_error
	code := C.slc_linear_pack_i8(k.linearISA(), unsafe.Pointer(unsafe.SliceData(to)), floats(a.Data),
		C.int64_t(a.Stride), C.int64_t(a.N), C.int64_t(a.Dim), &e)
	return failure(code, &e)
}

func (k Kernels) encode(c *Codes, x Rows) error {
	if k.isa == Go {
		goEncode(c, x)
		return nil
	}
	var e C.slc_error
	code := C.slc_codes_i8(k.linearISA(), floats(x.Data), C.int64_t(x.N), C.int64_t(x.Stride), C.int64_t(x.Dim),
		bytes(c.codes), C.int64_t(c.groups*codeGroup*k.codeSize()), floats(c.steps), C.int64_t(c.groups), &e)
	return failure(code, &e)
}

func (k Kernels) linearCodes(l *Linear) error {
	if k.isa == Go {
		goLinearCodes(l)
		return nil
	}
	args := arguments(l, l.Codes.n, 0)
	args.code_stride = C.int64_t(l.Codes.groups * codeGroup * k.codeSize())
	args.step_stride = C.int64_t(l.Codes.groups)
	var e C.slc_error
	code := C.linear_codes(k.linearISA(), args, bytes(l.Codes.codes), floats(l.Codes.steps),
		unsafe.Pointer(unsafe.SliceData(l.Weights.codes)), floats(l.Bias), floats(l.Residual), floats(l.Y), l.after(),
		&e)
	return failure(code, &e)
}

func bytes(s []byte) *C.uint8_t { return (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(s))) }

func (k Kernels) layerNorm(rows []float32, n, dim, stride int, scale, shift []float32, epsilon float32) error {
	if k.isa == Go {
		goLayerNorm(rows, n, dim, stride, scale, shift, epsilon)
		return nil
	}
	var e C.slc_error
	code := C.slc_layer_norm_f32(C.int32_t(k.isa), floats(rows), C.int64_t(n), C.int64_t(dim), C.int64_t(stride),
		floats(scale), floats(shift), C.float(epsilon), &e)
	return failure(code, &e)
}

// codesAttention tells whether attention has kernels with 8 bits.
func (k Kernels) codesAttention() bool {
	return k.isa != Go && C.slc_attention_scratch_i8(k.linearISA(), 1, 1) > 0
}

func (k Kernels) attentionScratch(longest, size int, coded bool) int {
	switch {
	case k.isa == Go:
		return longest
	case coded && k.codesAttention():
		return int(C.slc_attention_scratch_i8(k.linearISA(), C.int64_t(longest), C.int64_t(size)))
	}
	return int(C.slc_attention_scratch(C.int32_t(k.isa), C.int64_t(longest), C.int64_t(size)))
}

func (k Kernels) attention(a *Attention) error {
	if k.isa == Go {
		goAttention(a)
		return nil
	}
	isa, coded, width := C.int32_t(k.isa), C.int32_t(0), a.Heads*a.Size
	if a.Coded && k.codesAttention() {
		isa, coded = k.linearISA(), 1
	}
	var e C.slc_error
	code := C.attention(isa, C.slc_attention{
		stride: C.int64_t(3 * width), heads: C.int64_t(a.Heads), size: C.int64_t(a.Size),
		first: C.int64_t(a.First), last: C.int64_t(a.Last), first_head: C.int64_t(a.FirstHead),
		last_head: C.int64_t(a.LastHead), scale: C.float(a.Scale), far: C.int64_t(a.Far), y_stride: C.int64_t(width),
	}, floats(a.QKV), int64s(a.Starts), floats(a.Bias), floats(a.Y), floats(a.Scratch), coded, &e)
	return failure(code, &e)
}
