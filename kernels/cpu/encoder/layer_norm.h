// Layer normalisation of rows.
#ifndef SLC_LAYER_NORM_H
#define SLC_LAYER_NORM_H

#include "slc.h"

// slc_layer_norm_f32 replaces each row x of `dim` values by (x − mean)/√(variance + epsilon)·scale + shift, over the
// row's own values (Ba, Kiros, Hinton: Layer Normalization, 2016).
int32_t slc_layer_norm_f32(int32_t isa, float *rows, int64_t n, int64_t dim, int64_t stride, const float *scale,
                           const float *shift, float epsilon, slc_error *error);

typedef void slc_layer_norm_fn(float *rows, int64_t n, int64_t dim, int64_t stride, const float *scale,
                               const float *shift, float epsilon);
slc_layer_norm_fn slc_layer_norm_f32_scalar;
#if defined(__x86_64__)
slc_layer_norm_fn slc_layer_norm_f32_avx2, slc_layer_norm_f32_avx512;
#endif

#endif
