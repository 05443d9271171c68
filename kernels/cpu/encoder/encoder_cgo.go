//go:build cgo && (amd64 || arm64)

package encoder

/*
#cgo CFLAGS: -std=c11 -O3 -g1 -Wall -Wextra -I${SRCDIR}/../slc
#cgo amd64,!noamx CFLAGS: -DSLC_WITH_AMX
#cgo LDFLAGS: -lm
#cgo noescape slc_linear_pack_f32
#cgo nocallback slc_linear_pack_f32
#cgo noescape slc_linear_pack_i8
#cgo nocallback slc_linear_pack_i8
#cgo noescape slc_codes_i8
#cgo nocallback slc_codes_i8
#cgo noescape slc_layer_norm_f32
#cgo nocallback slc_layer_norm_f32
#include "helper.h"
#include "layer_norm.h"

// Structures themselves instead of pointers to them, which would be to memory of Go that holds pointers. `half` is the
// first panel or head of the helper's half, h NULL where there is none.
static int32_t linear(slc_helper *h, int32_t isa, slc_linear l, int64_t half, float *its_scratch,
                      const void *its_after, slc_error *error) {
	slc_linear mine = l, its = l;
	mine.last = its.first = half, its.scratch = its_scratch, its.after = its_after;
	return slc_share(h, l.codes ? slc_product_i8 : slc_product_f32, isa, &l, &mine, &its, sizeof l, error);
}

static int32_t attention(slc_helper *h, int32_t isa, int32_t coded, slc_attention a, int64_t half, float *its_scratch,
                         slc_error *error) {
	slc_attention mine = a, its = a;
	mine.last_head = its.first_head = half, its.scratch = its_scratch;
	return slc_share(h, coded ? slc_heads_bf16 : slc_heads_f32, isa, &a, &mine, &its, sizeof a, error);
}
#cgo noescape linear
#cgo nocallback linear
#cgo noescape attention
#cgo nocallback attention
*/
import "C"

import (
	"unsafe"

	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/slc"
)

// linearISA is the instruction set passed to the functions of linear.h.
func linearISA(k cpu.Kernels) C.int32_t {
	switch {
	case k.EmulatesAMX():
		return C.SLC_AMX_EMULATED
	case k.UsesWinograd() && k.ISA() == cpu.AVX2:
		return C.SLC_AVX2_WINOGRAD
	case k.UsesWinograd():
		return C.SLC_AVX512VNNI_WINOGRAD
	}
	return C.int32_t(k.ISA())
}

func panel(k cpu.Kernels) int {
	if k.ISA() == cpu.Go {
		return goPanel
	}
	return int(C.slc_linear_panel(linearISA(k)))
}

func weightSize(k cpu.Kernels, w *Weights) int {
	if k.ISA() == cpu.Go {
		return w.Out * w.In
	}
	return int(C.slc_linear_bytes_f32(linearISA(k), C.int64_t(w.Out), C.int64_t(w.In))) / 4
}

func linearScratch(k cpu.Kernels, rows, inputs int) int {
	if k.ISA() == cpu.Go {
		return 0
	}
	return int(C.slc_linear_scratch_f32(linearISA(k), C.int64_t(rows), C.int64_t(inputs)))
}

func packWeights(k cpu.Kernels, to []float32, a cpu.Rows) error {
	if k.ISA() == cpu.Go {
		goPackWeights(to, a)
		return nil
	}
	var e C.slc_error
	code := C.slc_linear_pack_f32(linearISA(k), unsafe.Pointer(unsafe.SliceData(to)), floats(a.Data),
		C.int64_t(a.Stride), C.int64_t(a.N), C.int64_t(a.Dim), &e)
	return slc.Error(code, e.text[:])
}

func linear(k cpu.Kernels, l *Linear) error {
	if k.ISA() == cpu.Go {
		goLinear(l)
		return nil
	}
	args := C.slc_linear{
		x: floats(l.X.Data), rows: C.int64_t(l.X.N), x_stride: C.int64_t(l.X.Stride), in: C.int64_t(l.Weights.In),
		weights: unsafe.Pointer(unsafe.SliceData(l.Weights.data)), out: C.int64_t(l.Weights.Out), bias: floats(l.Bias),
		residual: floats(l.Residual), residual_stride: C.int64_t(l.Stride), y: floats(l.Y),
		y_stride: C.int64_t(l.Stride), first: C.int64_t(l.First), last: C.int64_t(l.Last), after: l.after(0),
		activation: C.int32_t(l.Activation), scratch: floats(l.Scratch),
	}
	if c := l.Codes; c != nil {
		args.weights = unsafe.Pointer(unsafe.SliceData(l.Weights.codes))
		args.codes, args.steps, args.rows = bytes(c.codes), floats(c.steps), C.int64_t(c.n)
		args.code_stride, args.step_stride = C.int64_t(c.groups*codeGroup*codeSize(k)), C.int64_t(c.groups)
	}
	if l.To != nil && codesAreBFloat16(k) {
		args.y_codes, args.y_code_stride = bytes(l.To.codes), C.int64_t(l.To.groups*codeGroup*codeSize(k))
	}
	half := (l.First + l.Last + 1) / 2
	var h *C.slc_helper
	var scratch []float32
	if l.Helper != nil && half < l.Last {
		h, scratch = l.Helper.thread, l.Helper.room(len(l.Scratch))
	}
	var e C.slc_error
	code := C.linear(h, linearISA(k), args, C.int64_t(half), floats(scratch), l.after(1), &e)
	return slc.Error(code, e.text[:])
}

// after is the first panel of the next product on this thread: with a helper, each thread computes half of the panels.
func (l *Linear) after(half int) unsafe.Pointer {
	w := l.After
	if w == nil || w.Panels() < 2 && half > 0 {
		return nil
	}
	panel := (w.Panels() + 1) / 2 * half
	if w.codes != nil {
		return unsafe.Pointer(&w.codes[len(w.codes)/w.Panels()*panel])
	}
	return unsafe.Pointer(&w.data[len(w.data)/w.Panels()*panel])
}

func codePanel(k cpu.Kernels) int {
	if k.ISA() == cpu.Go {
		return goPanel
	}
	return int(C.slc_linear_panel_i8(linearISA(k)))
}

// codeSize is the size in bytes of an input's code.
func codeSize(k cpu.Kernels) int {
	if k.ISA() == cpu.Go {
		return 1
	}
	return int(C.slc_code_bytes(linearISA(k)))
}

func codeBytes(k cpu.Kernels, w *Weights) int {
	if k.ISA() == cpu.Go {
		return goCodeBytes(w)
	}
	return int(C.slc_linear_bytes_i8(linearISA(k), C.int64_t(w.Out), C.int64_t(w.In)))
}

func packCodes(k cpu.Kernels, to []byte, a cpu.Rows) error {
	if k.ISA() == cpu.Go {
		goPackCodes(to, a)
		return nil
	}
	var e C.slc_error
	code := C.slc_linear_pack_i8(linearISA(k), unsafe.Pointer(unsafe.SliceData(to)), floats(a.Data),
		C.int64_t(a.Stride), C.int64_t(a.N), C.int64_t(a.Dim), &e)
	return slc.Error(code, e.text[:])
}

func encode(k cpu.Kernels, c *Codes, x cpu.Rows) error {
	if k.ISA() == cpu.Go {
		goEncode(c, x)
		return nil
	}
	var e C.slc_error
	code := C.slc_codes_i8(linearISA(k), floats(x.Data), C.int64_t(x.N), C.int64_t(x.Stride), C.int64_t(x.Dim),
		bytes(c.codes), C.int64_t(c.groups*codeGroup*codeSize(k)), floats(c.steps), C.int64_t(c.groups), &e)
	return slc.Error(code, e.text[:])
}

func bytes(s []byte) *C.uint8_t { return (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(s))) }

func layerNorm(k cpu.Kernels, rows []float32, n, dim, stride int, scale, shift []float32, epsilon float32) error {
	if k.ISA() == cpu.Go {
		goLayerNorm(rows, n, dim, stride, scale, shift, epsilon)
		return nil
	}
	var e C.slc_error
	code := C.slc_layer_norm_f32(C.int32_t(k.ISA()), floats(rows), C.int64_t(n), C.int64_t(dim), C.int64_t(stride),
		floats(scale), floats(shift), C.float(epsilon), &e)
	return slc.Error(code, e.text[:])
}

func attentionScratch(k cpu.Kernels, longest, size int, coded bool) int {
	switch {
	case k.ISA() == cpu.Go:
		return longest
	case coded && codesAreBFloat16(k):
		return int(C.slc_attention_scratch_bf16(linearISA(k), C.int64_t(longest), C.int64_t(size)))
	}
	return int(C.slc_attention_scratch(C.int32_t(k.ISA()), C.int64_t(longest), C.int64_t(size)))
}

func attention(k cpu.Kernels, a *Attention) error {
	if k.ISA() == cpu.Go {
		goAttention(a)
		return nil
	}
	isa, coded, width := C.int32_t(k.ISA()), C.int32_t(0), a.Heads*a.Size
	if a.Coded && codesAreBFloat16(k) {
		isa, coded = linearISA(k), 1
	}
	half := (a.FirstHead + a.LastHead + 1) / 2
	var h *C.slc_helper
	var scratch []float32
	if a.Helper != nil && half < a.LastHead {
		h, scratch = a.Helper.thread, a.Helper.room(len(a.Scratch))
	}
	var e C.slc_error
	code := C.attention(h, isa, coded, C.slc_attention{
		qkv: floats(a.QKV), stride: C.int64_t(3 * width), heads: C.int64_t(a.Heads), size: C.int64_t(a.Size),
		starts: int64s(a.Starts), first: C.int64_t(a.First), last: C.int64_t(a.Last),
		first_head: C.int64_t(a.FirstHead), last_head: C.int64_t(a.LastHead), scale: C.float(a.Scale),
		bias: floats(a.Bias), far: C.int64_t(a.Far), y: floats(a.Y), y_stride: C.int64_t(width),
		scratch: floats(a.Scratch),
	}, C.int64_t(half), floats(scratch), &e)
	return slc.Error(code, e.text[:])
}

func floats(s []float32) *C.float { return slc.Pointer[C.float](s) }
func int64s(s []int64) *C.int64_t { return slc.Pointer[C.int64_t](s) }
