#ifndef SLC_TRAINING_H
#define SLC_TRAINING_H

#include "slc.h"

// slc_gelu_slope replaces n values x by GELU(x) = x * Phi(x) and writes its derivative Phi(x) + x * phi(x) to slope.
// Both are within 5e-7 * (1 + |x|) of the exact values. An element's result does not depend on its position.
int32_t slc_gelu_slope(int32_t isa, float *x, float *slope, int64_t n, slc_error *error);

// The factors of an Adam step, computed from the step's number and its rates.
typedef struct {
	float scale;        // factor of the gradients
	float beta1, beta2; // decay rates of the moments
	float rate;         // learning rate / (1 - beta1^t)
	float root;         // factor of the root of the second moment: 1 / sqrt(1 - beta2^t)
	float epsilon;
	float shrink;       // factor of the weights: decoupled weight decay
} slc_adam_step;

// slc_adam updates n weights w by the gradients g and the moments m and v:
// m = beta1 m + (1 - beta1) g', v = beta2 v + (1 - beta2) g'^2 with g' = g scale,
// w = w shrink - rate m / (sqrt(v) root + epsilon).
int32_t slc_adam(int32_t isa, float *w, const float *g, float *m, float *v, int64_t n, const slc_adam_step *step,
                 slc_error *error);

// Attention of one head over one text: `queries` rows of q, `length` rows of k and v, each of `dim` values. Rows of q
// and of the context are q_stride apart, rows of k and v (and of their gradients) kv_stride. p holds the probabilities,
// queries x p_stride with p_stride = length rounded up to SLC_ATTENDED_PAD; elements beyond a row's length are 0.
// bias[d] is added to the scaled product of a query and the key d rows behind it, 1 - queries <= d < length; it may be
// null. scratch has slc_attended_head_scratch floats. The gradients of k and v are overwritten.
enum { SLC_ATTENDED_PAD = 16 };
typedef struct {
	int64_t queries, length, dim, q_stride, kv_stride;
	float scale; // factor of the products q k
} slc_attended_head;

int64_t slc_attended_head_scratch(const slc_attended_head *a);
int32_t slc_attend(int32_t isa, const slc_attended_head *a, const float *q, const float *k, const float *v,
                   const float *bias, float *p, float *context, float *scratch, slc_error *error);
int32_t slc_attend_back(int32_t isa, const slc_attended_head *a, const float *q, const float *k, const float *v,
                        const float *p, const float *d_context, float *dq, float *dk, float *dv, float *scratch,
                        slc_error *error);

// The functions per instruction set, which do not check their arguments.
typedef void slc_gelu_slope_fn(float *x, float *slope, int64_t n);
typedef void slc_adam_fn(float *w, const float *g, float *m, float *v, int64_t n, const slc_adam_step *step);
typedef void slc_attend_fn(const slc_attended_head *a, const float *q, const float *k, const float *v,
                           const float *bias, float *p, float *context, float *scratch);
typedef void slc_attend_back_fn(const slc_attended_head *a, const float *q, const float *k, const float *v,
                                const float *p, const float *d_context, float *dq, float *dk, float *dv,
                                float *scratch);
slc_gelu_slope_fn slc_gelu_slope_f32_scalar, slc_gelu_slope_f32_avx2, slc_gelu_slope_f32_avx512,
	slc_gelu_slope_f32_neon;
slc_adam_fn slc_adam_f32_scalar, slc_adam_f32_avx2, slc_adam_f32_avx512, slc_adam_f32_neon;
slc_attend_fn slc_attend_f32_scalar, slc_attend_f32_avx2, slc_attend_f32_avx512, slc_attend_f32_neon;
slc_attend_back_fn slc_attend_back_f32_scalar, slc_attend_back_f32_avx2, slc_attend_back_f32_avx512,
	slc_attend_back_f32_neon;

#endif
