// Canonical scores of all pairs of two sets of vectors, their norms, and a check for values that are not finite.
#ifndef SLC_SCORES_H
#define SLC_SCORES_H

#include "slc.h"

// slc_scores writes out[i*out_stride + j] = canonical score of a's row i and b's row j (kernels/README.md) for all
// pairs. Norms come from slc_norms; only SLC_COSINE reads them.
int32_t slc_scores(int32_t isa, int32_t metric, slc_rows a, slc_rows b, int64_t dim, double *out, int64_t out_stride,
                   slc_error *error);

// slc_norms writes out[i] = sqrt(a_i . a_i) with the canonical dot product.
int32_t slc_norms(int32_t isa, slc_rows a, int64_t dim, double *out, slc_error *error);

// slc_finite sets *row to the first row of a that contains a NaN or an infinity, or to -1.
int32_t slc_finite(int32_t isa, slc_rows a, int64_t dim, int64_t *row, slc_error *error);

// The functions per instruction set; they do not check their arguments.
typedef void slc_scores_fn(const float *a, int64_t rows_a, int64_t stride_a, const double *norm_a,
                           const float *b, int64_t rows_b, int64_t stride_b, const double *norm_b,
                           int64_t dim, double *out, int64_t out_stride);
typedef void slc_norms_fn(const float *a, int64_t rows, int64_t stride, int64_t dim, double *out);
typedef int64_t slc_finite_fn(const float *a, int64_t rows, int64_t stride, int64_t dim);

slc_scores_fn slc_scores_cosine_f32_scalar, slc_scores_ip_f32_scalar, slc_scores_l2_f32_scalar;
slc_norms_fn slc_norms_f32_scalar;
slc_finite_fn slc_finite_f32_scalar;
#if defined(__x86_64__)
slc_scores_fn slc_scores_cosine_f32_avx2, slc_scores_ip_f32_avx2, slc_scores_l2_f32_avx2;
slc_scores_fn slc_scores_cosine_f32_avx512, slc_scores_ip_f32_avx512, slc_scores_l2_f32_avx512;
slc_norms_fn slc_norms_f32_avx2, slc_norms_f32_avx512;
slc_finite_fn slc_finite_f32_avx2, slc_finite_f32_avx512;
#elif defined(__aarch64__)
slc_scores_fn slc_scores_cosine_f32_neon, slc_scores_ip_f32_neon, slc_scores_l2_f32_neon;
slc_norms_fn slc_norms_f32_neon;
slc_finite_fn slc_finite_f32_neon;
#endif

#endif
