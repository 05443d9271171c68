// Canonical scores and quick estimates of single pairs, and sums of vectors. See slc.h for the rules and types.
#ifndef SLC_PAIRS_H
#define SLC_PAIRS_H

#include "slc.h"

// slc_pairs writes out[i] = canonical score of a's row row_a[i] (row 0 without row_a) and b's row row_b[i], n pairs:
// the same bits as slc_scores.
int32_t slc_pairs(int32_t isa, int32_t metric, slc_rows a, const int32_t *row_a, slc_rows b, const int32_t *row_b,
                  int64_t dim, int64_t n, double *out, slc_error *error);

// slc_estimate writes out[i] = dot product (SLC_L2: squared distance) of the pairs in float32, summed in any order, in
// a quarter of the time; for samples. It may be infinite or NaN where float32 overflows.
int32_t slc_estimate(int32_t isa, int32_t metric, slc_rows a, const int32_t *row_a, slc_rows b, const int32_t *row_b,
                     int64_t dim, int64_t n, float *out, slc_error *error);

// slc_sum adds factor[r] * (a's row r), rounded to whole units of 2^-50, to out, dim integers, for the n listed rows
// r. The products lie between -2 and 2, and there are at most 4096 of them, so that the sums are exact.
int32_t slc_sum(int32_t isa, slc_rows a, int64_t dim, const double *factor, const int32_t *rows, int64_t n,
                int64_t *out, slc_error *error);

typedef struct {
	const float *a, *b;
	int64_t stride_a, stride_b, dim, n;
	const double *norm_a, *norm_b;
	const int32_t *row_a, *row_b;
	double *out;
	float *estimate;
} slc_pair_list;

typedef void slc_pairs_fn(const slc_pair_list *list, int32_t metric);
typedef void slc_sum_fn(const float *a, int64_t stride, int64_t dim, const double *factor, const int32_t *rows,
	int64_t n, int64_t *out);

slc_pairs_fn slc_pairs_f32_scalar, slc_estimate_f32_scalar;
slc_sum_fn slc_sum_f32_scalar;
#if defined(__x86_64__)
slc_pairs_fn slc_pairs_f32_avx2, slc_pairs_f32_avx512, slc_estimate_f32_avx2, slc_estimate_f32_avx512;
slc_sum_fn slc_sum_f32_avx2, slc_sum_f32_avx512;
#elif defined(__aarch64__)
slc_pairs_fn slc_pairs_f32_neon, slc_estimate_f32_neon;
slc_sum_fn slc_sum_f32_neon;
#endif

#endif
