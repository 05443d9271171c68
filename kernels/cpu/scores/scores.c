//go:build amd64 || arm64

// Checks the arguments that could make a kernel access memory out of bounds, then calls it by ISA and metric.
#include "fail.h"
#include "scores.h"

#if defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0
#error "canonical scores need float64 arithmetic without excess precision"
#endif
#if defined(__FAST_MATH__)
#error "canonical scores cannot be compiled with -ffast-math"
#endif

typedef struct {
	slc_scores_fn *scores[SLC_METRICS];
	slc_norms_fn *norms;
	slc_finite_fn *finite;
} kernels;

static const kernels table[SLC_ISAS] = {
	[SLC_SCALAR] = {{slc_scores_cosine_f32_scalar, slc_scores_ip_f32_scalar, slc_scores_l2_f32_scalar},
	                slc_norms_f32_scalar, slc_finite_f32_scalar},
#if defined(__x86_64__)
#define AVX2 \
	{{slc_scores_cosine_f32_avx2, slc_scores_ip_f32_avx2, slc_scores_l2_f32_avx2}, slc_norms_f32_avx2, \
	 slc_finite_f32_avx2}
	[SLC_AVX2] = AVX2, [SLC_AVXVNNI] = AVX2,
#define AVX512 \
	{{slc_scores_cosine_f32_avx512, slc_scores_ip_f32_avx512, slc_scores_l2_f32_avx512}, slc_norms_f32_avx512, \
	 slc_finite_f32_avx512}
	[SLC_AVX512] = AVX512, [SLC_AVX512VNNI] = AVX512, [SLC_AMX] = AVX512, // VNNI and AMX extend only the tile kernels
#elif defined(__aarch64__)
#define NEON \
	{{slc_scores_cosine_f32_neon, slc_scores_ip_f32_neon, slc_scores_l2_f32_neon}, slc_norms_f32_neon, \
	 slc_finite_f32_neon}
	[SLC_NEON] = NEON, [SLC_DOTPROD] = NEON, [SLC_I8MM] = NEON, [SLC_BFMMLA] = NEON,
#endif
};

static int32_t check_isa(int32_t isa, slc_error *error) {
	if (isa < 0 || isa >= SLC_ISAS || !table[isa].norms)
		FAIL(SLC_ERROR_ISA, "instruction set %d is not in this build", (int)isa);
	return SLC_OK;
}

static int32_t check_rows(const char *name, slc_rows r, int64_t dim, slc_error *error) {
	if (r.n < 0 || dim < 0 || r.stride < dim)
		FAIL(SLC_ERROR_SHAPE, "%s: %lld rows of %lld elements with stride %lld", name, (long long)r.n, (long long)dim,
		     (long long)r.stride);
	if (!r.data && r.n > 0 && dim > 0)
		FAIL(SLC_ERROR_SHAPE, "%s: null pointer for %lld rows", name, (long long)r.n);
	return SLC_OK;
}

int32_t slc_scores(int32_t isa, int32_t metric, slc_rows a, slc_rows b, int64_t dim, double *out, int64_t out_stride,
                   slc_error *error) {
	int32_t code;
	if ((code = check_isa(isa, error)) || (code = check_rows("a", a, dim, error)) ||
	    (code = check_rows("b", b, dim, error)))
		return code;
	if (metric < 0 || metric >= SLC_METRICS) FAIL(SLC_ERROR_METRIC, "metric %d", (int)metric);
	if (a.n == 0 || b.n == 0) return SLC_OK;
	if (!out || out_stride < b.n)
		FAIL(SLC_ERROR_SHAPE, "out: stride %lld for %lld columns", (long long)out_stride, (long long)b.n);
	if (metric == SLC_COSINE && (!a.norms || !b.norms)) FAIL(SLC_ERROR_SHAPE, "cosine needs the norms of both sides");
	table[isa].scores[metric](a.data, a.n, a.stride, a.norms, b.data, b.n, b.stride, b.norms, dim, out, out_stride);
	return SLC_OK;
}

int32_t slc_norms(int32_t isa, slc_rows a, int64_t dim, double *out, slc_error *error) {
	int32_t code;
	if ((code = check_isa(isa, error)) || (code = check_rows("a", a, dim, error))) return code;
	if (!out && a.n > 0) FAIL(SLC_ERROR_SHAPE, "out: null pointer for %lld norms", (long long)a.n);
	table[isa].norms(a.data, a.n, a.stride, dim, out);
	return SLC_OK;
}

int32_t slc_finite(int32_t isa, slc_rows a, int64_t dim, int64_t *row, slc_error *error) {
	int32_t code;
	if ((code = check_isa(isa, error)) || (code = check_rows("a", a, dim, error))) return code;
	*row = table[isa].finite(a.data, a.n, a.stride, dim);
	return SLC_OK;
}
