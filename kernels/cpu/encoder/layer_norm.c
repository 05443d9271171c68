//go:build amd64 || arm64

// Checks the arguments of a layer normalisation.
#include "fail.h"
#include "layer_norm.h"

static slc_layer_norm_fn *const table[SLC_ISAS] = {
	[SLC_SCALAR] = slc_layer_norm_f32_scalar,
#if defined(__x86_64__)
	[SLC_AVX2] = slc_layer_norm_f32_avx2, [SLC_AVXVNNI] = slc_layer_norm_f32_avx2,
	[SLC_AVX512] = slc_layer_norm_f32_avx512,
	[SLC_AVX512VNNI] = slc_layer_norm_f32_avx512, [SLC_AMX] = slc_layer_norm_f32_avx512,
#elif defined(__aarch64__) // the baseline is NEON
	[SLC_NEON] = slc_layer_norm_f32_scalar, [SLC_DOTPROD] = slc_layer_norm_f32_scalar,
	[SLC_I8MM] = slc_layer_norm_f32_scalar, [SLC_BFMMLA] = slc_layer_norm_f32_scalar,
#endif
};

int32_t slc_layer_norm_f32(int32_t isa, float *rows, int64_t n, int64_t dim, int64_t stride, const float *scale,
                           const float *shift, float epsilon, slc_error *error) {
	if (isa < 0 || isa >= SLC_ISAS || !table[isa])
		FAIL(SLC_ERROR_ISA, "instruction set %d is not in this build", (int)isa);
	if (n < 0 || dim < 1 || stride < dim || (n > 0 && (!rows || !scale || !shift)))
		FAIL(SLC_ERROR_SHAPE, "layer norm: %lld rows of %lld values with stride %lld", (long long)n, (long long)dim,
		     (long long)stride);
	table[isa](rows, n, dim, stride, scale, shift, epsilon);
	return SLC_OK;
}
