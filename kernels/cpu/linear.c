//go:build amd64 || arm64

// Checks the arguments of a product, and packs weights.
#include "fail.h"
#include "linear.h"

typedef struct {
	slc_linear_fn *f32;
	int64_t panel;
} kernels;

static const kernels table[SLC_ISAS] = {
	[SLC_SCALAR] = {slc_linear_f32_scalar, 8},
#if defined(__x86_64__)
	[SLC_AVX2] = {slc_linear_f32_avx2, 16},
	[SLC_AVX512] = {slc_linear_f32_avx512, 32}, [SLC_AVX512VNNI] = {slc_linear_f32_avx512, 32},
	[SLC_AMX] = {slc_linear_f32_avx512, 32},
#endif
};

int64_t slc_linear_panel(int32_t isa) { return isa < 0 || isa >= SLC_ISAS ? 0 : table[isa].panel; }

int32_t slc_linear_f32(int32_t isa, const slc_linear *l, slc_error *error) {
	const int64_t panel = slc_linear_panel(isa);
	if (!panel) FAIL(SLC_ERROR_ISA, "instruction set %d is not in this build", (int)isa);
	if (l->rows < 0 || l->in < 1 || l->out < 1 || l->x_stride < l->in || l->y_stride < l->out ||
	    (l->residual && l->residual_stride < l->out))
		FAIL(SLC_ERROR_SHAPE, "linear: %lld rows of %lld to %lld values with strides %lld, %lld and %lld",
		     (long long)l->rows, (long long)l->in, (long long)l->out, (long long)l->x_stride, (long long)l->y_stride,
		     (long long)l->residual_stride);
	if (l->first < 0 || l->first > l->last || l->last > (l->out + panel - 1) / panel)
		FAIL(SLC_ERROR_SHAPE, "linear: panels %lld to %lld of %lld outputs", (long long)l->first, (long long)l->last,
		     (long long)l->out);
	if (l->rows > 0 && (!l->x || !l->y || !l->weights)) FAIL(SLC_ERROR_SHAPE, "linear: null pointer");
	if (l->activation < 0 || l->activation >= SLC_ACTIVATIONS)
		FAIL(SLC_ERROR_RANGE, "linear: activation %d", (int)l->activation);
	table[isa].f32(l);
	return SLC_OK;
}

int32_t slc_linear_pack_f32(int32_t isa, float *to, const float *weights, int64_t stride, int64_t out, int64_t in,
                            slc_error *error) {
	const int64_t panel = slc_linear_panel(isa);
	if (!panel) FAIL(SLC_ERROR_ISA, "instruction set %d is not in this build", (int)isa);
	if (in < 1 || out < 1 || stride < in || !to || !weights)
		FAIL(SLC_ERROR_SHAPE, "linear: packing %lld rows of %lld weights with stride %lld", (long long)out,
		     (long long)in, (long long)stride);
	for (int64_t o = 0; o < out; o += panel)
		for (int64_t k = 0; k < in; k++)
			for (int64_t j = 0; j < panel; j++) *to++ = o + j < out ? weights[(o + j) * stride + k] : 0;
	return SLC_OK;
}
