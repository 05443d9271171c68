//go:build amd64 || arm64

// Checks the arguments of what training adds to the kernels, then calls them by ISA.
#include "training.h"
#include "fail.h"

typedef struct {
	slc_gelu_slope_fn *gelu_slope;
	slc_adam_fn *adam;
} kernels;

static const kernels table[SLC_ISAS] = {
	[SLC_SCALAR] = {slc_gelu_slope_f32_scalar, slc_adam_f32_scalar},
#if defined(__x86_64__)
	[SLC_AVX2] = {slc_gelu_slope_f32_avx2, slc_adam_f32_avx2},
	[SLC_AVX512] = {slc_gelu_slope_f32_avx512, slc_adam_f32_avx512},
	[SLC_AVX512VNNI] = {slc_gelu_slope_f32_avx512, slc_adam_f32_avx512},
	[SLC_AMX] = {slc_gelu_slope_f32_avx512, slc_adam_f32_avx512},
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
