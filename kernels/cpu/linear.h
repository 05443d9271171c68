// Products with a matrix of weights that is packed once, as the layers of an encoder have them: y = f(x·Wᵀ + bias) + r.
#ifndef SLC_LINEAR_H
#define SLC_LINEAR_H

#include "slc.h"

// The activation f. GELU is x·Φ(x), with the error function or with its approximation by a hyperbolic tangent.
enum { SLC_NONE = 0, SLC_GELU = 1, SLC_GELU_TANH = 2, SLC_RELU = 3, SLC_TANH = 4, SLC_ACTIVATIONS = 5 };

// y overlaps nothing else. The weights are panels of slc_linear_panel(isa) outputs: for each input the weights of the
// panel's outputs, zeros behind the last. The caller gives the panels [first, last) to compute. A row of y depends on
// its own row of x only, and its bits neither on the other rows nor on the panels of a call.
typedef struct {
	const float *x;
	int64_t rows, x_stride;
	const float *weights;
	int64_t in, out;
	const float *bias;     // out values; NULL: none
	const float *residual; // rows × out, added after the activation; NULL: none
	int64_t residual_stride;
	float *y;
	int64_t y_stride;
	int64_t first, last;
	int32_t activation;
} slc_linear;

int32_t slc_linear_f32(int32_t isa, const slc_linear *l, slc_error *error);

// slc_linear_panel is the outputs of a panel; 0 for an instruction set that this build lacks.
int64_t slc_linear_panel(int32_t isa);

// slc_linear_pack_f32 writes the panels of `out` rows of `in` weights: slc_linear_panel · in floats each.
int32_t slc_linear_pack_f32(int32_t isa, float *to, const float *weights, int64_t stride, int64_t out, int64_t in,
                            slc_error *error);

typedef void slc_linear_fn(const slc_linear *l);
slc_linear_fn slc_linear_f32_scalar;
#if defined(__x86_64__)
slc_linear_fn slc_linear_f32_avx2, slc_linear_f32_avx512;
#endif

#endif
