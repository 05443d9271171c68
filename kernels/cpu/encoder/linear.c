//go:build amd64 || arm64

// Checks the arguments of a product, and packs weights.
#include <math.h>
#include <string.h>

#include "fail.h"
#include "linear.h"

typedef struct {
	slc_linear_fn *f32, *i8;
	slc_codes_fn *codes;
	int64_t panel;
	int32_t i8_panel;
	int32_t offset;           // added to the codes of inputs
	int32_t run;              // adjacent codes of an output that an instruction multiplies
	int32_t digits;           // floats are multiplied as three digits
	slc_linear_pack_fn *pack; // packs digits, or weights for Winograd's inner products; NULL: the plain layout
	slc_linear_pack_fn *bf16; // packs bfloat16 (two bytes) where it replaces 8-bit codes, else NULL
} kernels;

static const kernels table[SLC_LINEAR_ISAS] = {
	[SLC_SCALAR] = {slc_linear_f32_scalar, slc_linear_i8_scalar, slc_codes_i8_scalar, 8, 8, 0, 4, 0},
#if defined(__x86_64__)
	[SLC_AVX2] = {slc_linear_f32_avx2, slc_linear_i8_avx2, slc_codes_i8_avx2, 16, 16, 0, 2, 0},
	[SLC_AVXVNNI] = {slc_linear_f32_avx2, slc_linear_i8_avxvnni, slc_codes_i8_avxvnni, 16, 16, 128, 4, 0},
	[SLC_AVX512] = {slc_linear_f32_avx512, slc_linear_i8_avx512, slc_codes_i8_avx512, 32, 16, 0, 2, 0},
	[SLC_AVX512VNNI] = {slc_linear_f32_avx512, slc_linear_i8_avx512vnni, slc_codes_i8_avx512vnni, 32, 32, 128, 4, 0},
#if defined(SLC_WITH_AMX)
	[SLC_AMX] = {slc_linear_f32_amx, slc_linear_bf16_amx, slc_codes_bf16_amx, 32, 32, 0, 2, 1,
	             slc_linear_pack_f32_amx, slc_linear_pack_bf16_amx},
	[SLC_AMX_EMULATED] = {slc_linear_f32_amx_emulated, slc_linear_bf16_amx_emulated, slc_codes_bf16_amx_emulated,
	                      32, 32, 0, 2, 1, slc_linear_pack_f32_amx_emulated, slc_linear_pack_bf16_amx_emulated},
#endif
	[SLC_AVX2_WINOGRAD] = {slc_linear_f32_winograd_avx2, slc_linear_i8_avx2, slc_codes_i8_avx2, 16, 16, 0, 2, 0,
	                       slc_linear_pack_f32_winograd_avx2},
	[SLC_AVX512VNNI_WINOGRAD] = {slc_linear_f32_winograd_avx512, slc_linear_i8_avx512vnni, slc_codes_i8_avx512vnni, 48,
	                             32, 128, 4, 0, slc_linear_pack_f32_winograd_avx512},
#elif defined(__aarch64__)
	[SLC_NEON] = {slc_linear_f32_neon, slc_linear_i8_neon, slc_codes_i8_neon, 16, 8, 0, 4, 0},
	[SLC_DOTPROD] = {slc_linear_f32_neon, slc_linear_i8_dotprod, slc_codes_i8_dotprod, 16, 8, 0, 4, 0},
	[SLC_I8MM] = {slc_linear_f32_neon, slc_linear_i8_i8mm, slc_codes_i8_i8mm, 16, 8, 0, 8, 0},
	[SLC_BFMMLA] = {slc_linear_f32_neon, slc_linear_i8_i8mm, slc_codes_i8_i8mm, 16, 8, 0, 8, 0},
#endif
};

int64_t slc_linear_panel(int32_t isa) { return isa < 0 || isa >= SLC_LINEAR_ISAS ? 0 : table[isa].panel; }

static int32_t check(int64_t panel, const slc_linear *l, slc_error *error) {
	if (!panel) FAIL(SLC_ERROR_ISA, "this instruction set is not in this build");
	if (l->rows < 0 || l->in < 1 || l->out < 1 || l->y_stride < l->out ||
	    (l->residual && l->residual_stride < l->out))
		FAIL(SLC_ERROR_SHAPE, "linear: %lld rows of %lld to %lld values with strides %lld and %lld", (long long)l->rows,
		     (long long)l->in, (long long)l->out, (long long)l->y_stride, (long long)l->residual_stride);
	if (l->first < 0 || l->first > l->last || l->last > (l->out + panel - 1) / panel)
		FAIL(SLC_ERROR_SHAPE, "linear: panels %lld to %lld of %lld outputs", (long long)l->first, (long long)l->last,
		     (long long)l->out);
	if (l->activation < 0 || l->activation >= SLC_ACTIVATIONS)
		FAIL(SLC_ERROR_RANGE, "linear: activation %d", (int)l->activation);
	return SLC_OK;
}

int32_t slc_linear_f32(int32_t isa, const slc_linear *l, slc_error *error) {
	int32_t code = check(slc_linear_panel(isa), l, error);
	if (code) return code;
	if (l->x_stride < l->in || (l->rows > 0 && (!l->x || !l->y || !l->weights)))
		FAIL(SLC_ERROR_SHAPE, "linear: no rows, or a stride of %lld for %lld inputs", (long long)l->x_stride,
		     (long long)l->in);
	if (slc_linear_scratch_f32(isa, l->rows, l->in) && !l->scratch) FAIL(SLC_ERROR_SHAPE, "linear: no scratch");
	table[isa].f32(l);
	return SLC_OK;
}

int64_t slc_linear_scratch_f32(int32_t isa, int64_t rows, int64_t in) {
	if (!slc_linear_panel(isa) || rows < 1) return 0;
	if (table[isa].digits) { // 16: for alignment to a cache line
		const int64_t group = rows < SLC_LINEAR_ROWS ? rows : SLC_LINEAR_ROWS;
		const int64_t inputs = rows > SLC_LINEAR_FEW && in > SLC_LINEAR_DEPTH ? SLC_LINEAR_DEPTH : in;
		return (group + 15) / 16 * slc_linear_spans(inputs) * SLC_LINEAR_TILE / 4 + 16;
	}
	if (table[isa].pack)
		return SLC_WINOGRAD_ROW * (rows <= SLC_WINOGRAD_FEW      ? rows * slc_winograd_slices(in)
		                           : rows <= SLC_WINOGRAD_GROUP ? rows
		                                                         : SLC_WINOGRAD_GROUP);
	return 0;
}

int64_t slc_linear_bytes_f32(int32_t isa, int64_t out, int64_t in) {
	const int64_t panel = slc_linear_panel(isa);
	if (!panel) return 0;
	const int64_t panels = (out + panel - 1) / panel;
	if (table[isa].digits) return panels * panel / 16 * slc_linear_spans(in) * SLC_LINEAR_TILE;
	return panels * panel * (table[isa].pack ? slc_winograd_inputs(in) : in) * 4;
}

static int64_t groups(int64_t in) { return (in + SLC_I8_GROUP - 1) / SLC_I8_GROUP; }

int64_t slc_linear_panel_i8(int32_t isa) { return isa < 0 || isa >= SLC_LINEAR_ISAS ? 0 : table[isa].i8_panel; }

int64_t slc_code_bytes(int32_t isa) { return slc_linear_panel_i8(isa) ? 1 + (table[isa].run == 2) : 0; }

int32_t slc_linear_i8(int32_t isa, const slc_linear *l, slc_error *error) {
	int32_t code = check(slc_linear_panel_i8(isa), l, error);
	if (code) return code;
	if (l->code_stride < groups(l->in) * SLC_I8_GROUP * slc_code_bytes(isa) || l->step_stride < groups(l->in) ||
	    (l->rows > 0 && (!l->codes || !l->steps || !l->y || !l->weights)))
		FAIL(SLC_ERROR_SHAPE, "linear: no codes, or strides of %lld and %lld for %lld inputs",
		     (long long)l->code_stride, (long long)l->step_stride, (long long)l->in);
	if (l->y_codes && (!table[isa].bf16 ||
	                   l->y_code_stride < groups(l->out) * SLC_I8_GROUP * slc_code_bytes(isa)))
		FAIL(SLC_ERROR_SHAPE, "linear: outputs as codes, with a stride of %lld for %lld outputs",
		     (long long)l->y_code_stride, (long long)l->out);
	table[isa].i8(l);
	return SLC_OK;
}

int32_t slc_codes_i8(int32_t isa, const float *x, int64_t rows, int64_t stride, int64_t in, uint8_t *codes,
                     int64_t code_stride, float *steps, int64_t step_stride, slc_error *error) {
	if (!slc_linear_panel_i8(isa)) FAIL(SLC_ERROR_ISA, "instruction set %d is not in this build", (int)isa);
	if (rows < 0 || in < 1 || stride < in || step_stride < groups(in) ||
	    code_stride < groups(in) * SLC_I8_GROUP * slc_code_bytes(isa) ||
	    (rows > 0 && (!x || !codes || !steps)))
		FAIL(SLC_ERROR_SHAPE, "codes: %lld rows of %lld values with strides %lld, %lld and %lld", (long long)rows,
		     (long long)in, (long long)stride, (long long)code_stride, (long long)step_stride);
	table[isa].codes(x, rows, stride, in, codes, code_stride, steps, step_stride);
	return SLC_OK;
}

int64_t slc_linear_bytes_i8(int32_t isa, int64_t out, int64_t in) {
	const int64_t panel = slc_linear_panel_i8(isa);
	if (!panel) return 0;
	const int64_t bytes = table[isa].bf16 ? 2 * SLC_I8_GROUP : SLC_I8_GROUP + 8; // per output and group
	return (out + panel - 1) / panel * panel * groups(in) * bytes;
}

// pack_group writes one group of inputs, starting at `first`, for the outputs from o on.
static void pack_group(uint8_t *to, const float *weights, int64_t stride, int64_t out, int64_t in, int64_t o,
                       int64_t first, int64_t panel, int64_t run, int32_t offset) {
	for (int64_t j = 0; j < panel; j++) {
		const float *w = weights + (o + j) * stride + first;
		const int64_t n = o + j >= out ? 0 : in - first < SLC_I8_GROUP ? in - first : SLC_I8_GROUP;
		float top = 0;
		for (int64_t k = 0; k < n; k++) top = fabsf(w[k]) > top ? fabsf(w[k]) : top;
		int finite = 1;
		for (int64_t k = 0; k < n; k++) finite &= isfinite(w[k]) != 0;
		const float scale = finite && top > 1e-30f ? 127 / top : 0;
		const float step = !finite ? NAN : scale > 0 ? top / 127 : 0; // so that damaged weights are noticed
		int32_t sum = 0;
		for (int64_t k = 0; k < SLC_I8_GROUP; k++) {
			const int8_t code = k < n ? (int8_t)lrintf(w[k] * scale) : 0;
			to[(k / run * panel + j) * run + k % run] = (uint8_t)code;
			sum -= offset * code;
		}
		memcpy(to + (SLC_I8_GROUP + 0) * panel + 4 * j, &sum, sizeof sum);
		memcpy(to + (SLC_I8_GROUP + 4) * panel + 4 * j, &step, sizeof step);
	}
}

int32_t slc_linear_pack_i8(int32_t isa, void *to, const float *weights, int64_t stride, int64_t out, int64_t in,
                           slc_error *error) {
	const int64_t panel = slc_linear_panel_i8(isa);
	if (!panel) FAIL(SLC_ERROR_ISA, "instruction set %d is not in this build", (int)isa);
	if (in < 1 || out < 1 || stride < in || !to || !weights)
		FAIL(SLC_ERROR_SHAPE, "linear: packing %lld rows of %lld weights with stride %lld", (long long)out,
		     (long long)in, (long long)stride);
	if (table[isa].bf16) {
		table[isa].bf16(to, weights, stride, out, in);
		return SLC_OK;
	}
	uint8_t *p = to;
	for (int64_t o = 0; o < out; o += panel)
		for (int64_t k = 0; k < in; k += SLC_I8_GROUP, p += (SLC_I8_GROUP + 8) * panel)
			pack_group(p, weights, stride, out, in, o, k, panel, table[isa].run, table[isa].offset);
	return SLC_OK;
}

int32_t slc_linear_pack_f32(int32_t isa, void *to, const float *weights, int64_t stride, int64_t out, int64_t in,
                            slc_error *error) {
	const int64_t panel = slc_linear_panel(isa);
	if (!panel) FAIL(SLC_ERROR_ISA, "instruction set %d is not in this build", (int)isa);
	if (in < 1 || out < 1 || stride < in || !to || !weights)
		FAIL(SLC_ERROR_SHAPE, "linear: packing %lld rows of %lld weights with stride %lld", (long long)out,
		     (long long)in, (long long)stride);
	float *p = to;
	if (table[isa].pack) {
		table[isa].pack(p, weights, stride, out, in);
		return SLC_OK;
	}
	for (int64_t o = 0; o < out; o += panel)
		for (int64_t k = 0; k < in; k++)
			for (int64_t j = 0; j < panel; j++) *p++ = o + j < out ? weights[(o + j) * stride + k] : 0;
	return SLC_OK;
}
