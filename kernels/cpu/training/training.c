//go:build amd64 || arm64

// Checks the arguments of the training kernels, then calls the functions of the instruction set.
#include "training.h"
#include "fail.h"

typedef struct {
	slc_gelu_slope_fn *gelu_slope;
	slc_adam_fn *adam;
	slc_attend_fn *attend;
	slc_attend_back_fn *attend_back;
} kernels;

#define OF(isa) {slc_gelu_slope_f32_##isa, slc_adam_f32_##isa, slc_attend_f32_##isa, slc_attend_back_f32_##isa}

static const kernels table[SLC_ISAS] = {
	[SLC_SCALAR] = OF(scalar),
#if defined(__x86_64__)
	[SLC_AVX2] = OF(avx2), [SLC_AVXVNNI] = OF(avx2),
	[SLC_AVX512] = OF(avx512), [SLC_AVX512VNNI] = OF(avx512), [SLC_AMX] = OF(avx512),
#elif defined(__aarch64__)
	[SLC_NEON] = OF(neon), [SLC_DOTPROD] = OF(neon), [SLC_I8MM] = OF(neon),
	[SLC_BFMMLA] = OF(neon),
#endif
};

static int32_t check(int32_t isa, int64_t n, int missing, slc_error *error) {
	if (isa < 0 || isa >= SLC_ISAS || !table[isa].adam)
		FAIL(SLC_ERROR_ISA, "instruction set %d is not in this build", (int)isa);
	if (n < 0 || (n > 0 && missing)) FAIL(SLC_ERROR_SHAPE, "%lld values, or a null pointer", (long long)n);
	return SLC_OK;
}

int32_t slc_gelu_slope(int32_t isa, float *x, float *slope, int64_t n, slc_error *error) {
	int32_t code = check(isa, n, !x || !slope, error);
	if (code) return code;
	table[isa].gelu_slope(x, slope, n);
	return SLC_OK;
}

int32_t slc_adam(int32_t isa, float *w, const float *g, float *m, float *v, int64_t n, const slc_adam_step *step,
                 slc_error *error) {
	int32_t code = check(isa, n, !w || !g || !m || !v || !step, error);
	if (code) return code;
	table[isa].adam(w, g, m, v, n, step);
	return SLC_OK;
}

static int64_t padded(int64_t n) { return (n + SLC_ATTENDED_PAD - 1) / SLC_ATTENDED_PAD * SLC_ATTENDED_PAD; }

int64_t slc_attended_head_scratch(const slc_attended_head *a) {
	int64_t length = padded(a->length), dim = padded(a->dim), queries = padded(a->queries);
	return 2 * (a->dim * length + length * dim + queries * dim) + queries * length + (length + queries) * dim;
}

static int32_t check_attention(int32_t isa, const slc_attended_head *a, int missing, slc_error *error) {
	int32_t code = check(isa, 1, missing || !a, error);
	if (code) return code;
	if (a->queries < 0 || a->length < 1 || a->dim < 1 || a->q_stride < a->dim || a->kv_stride < a->dim)
		FAIL(SLC_ERROR_SHAPE, "attention of %lld queries over %lld rows of %lld, strides %lld and %lld",
		     (long long)a->queries, (long long)a->length, (long long)a->dim, (long long)a->q_stride,
		     (long long)a->kv_stride);
	return SLC_OK;
}

int32_t slc_attend(int32_t isa, const slc_attended_head *a, const float *q, const float *k, const float *v,
                   const float *bias, float *p, float *context, float *scratch, slc_error *error) {
	int32_t code = check_attention(isa, a, !q || !k || !v || !p || !context || !scratch, error);
	if (code) return code;
	table[isa].attend(a, q, k, v, bias, p, context, scratch);
	return SLC_OK;
}

int32_t slc_attend_back(int32_t isa, const slc_attended_head *a, const float *q, const float *k, const float *v,
                        const float *p, const float *d_context, float *dq, float *dk, float *dv, float *scratch,
                        slc_error *error) {
	int32_t code = check_attention(isa, a, !q || !k || !v || !p || !d_context || !dq || !dk || !dv || !scratch, error);
	if (code) return code;
	table[isa].attend_back(a, q, k, v, p, d_context, dq, dk, dv, scratch);
	return SLC_OK;
}
