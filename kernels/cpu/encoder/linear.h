// Products with a matrix of weights that is packed once, as in the layers of an encoder: y = f(x·Wᵀ + bias) + r.
#ifndef SLC_LINEAR_H
#define SLC_LINEAR_H

#include "slc.h"

// The activation f. GELU is x·Φ(x), with the error function or with its approximation by a hyperbolic tangent.
enum { SLC_NONE = 0, SLC_GELU = 1, SLC_GELU_TANH = 2, SLC_RELU = 3, SLC_TANH = 4, SLC_ACTIVATIONS = 5 };

// y overlaps nothing else. The weights are panels of slc_linear_panel(isa) outputs: for each input the weights of the
// panel's outputs, padded with zeros. The caller selects the panels [first, last) to compute. A row of y depends only
// on the same row of x, and its bits do not depend on the other rows or on the panels of a call.
typedef struct {
	const float *x;
	int64_t rows, x_stride;
	const void *weights;
	int64_t in, out;
	const float *bias;     // out values; NULL: none
	const float *residual; // rows × out, added after the activation; NULL: none
	int64_t residual_stride;
	float *y;
	int64_t y_stride;
	int64_t first, last;
	const void *after; // weights of the next product on the caller's thread, to prefetch; NULL: unknown
	int32_t activation;
	float *scratch; // slc_linear_scratch_f32(isa, rows, in) floats; NULL if that is 0
	// slc_linear_i8 reads these instead of x.
	const uint8_t *codes;
	const float *steps;
	int64_t code_stride, step_stride;
	// With AMX, slc_linear_i8 writes its outputs here as codes, the inputs of the next product, and uses y only for
	// sums of slices. NULL: outputs go to y.
	uint8_t *y_codes;
	int64_t y_code_stride;
} slc_linear;

// Beside the instruction sets of slc.h, the functions here accept AMX with emulated tile instructions, which gives the
// same bits on any machine with AVX2, slowly (tile_ops_emulated.h), and two sets with Winograd's inner products
// (linear_winograd_body.h).
enum { SLC_AMX_EMULATED = SLC_ISAS, SLC_AVX2_WINOGRAD, SLC_AVX512VNNI_WINOGRAD, SLC_LINEAR_ISAS };

int32_t slc_linear_f32(int32_t isa, const slc_linear *l, slc_error *error);

// slc_linear_panel returns the outputs per panel; 0 for an instruction set that this build lacks.
int64_t slc_linear_panel(int32_t isa);

// With AMX, floats are multiplied as integers of three digits (linear_amx_body.h): SLC_LINEAR_SPAN inputs of a row
// share a step, and a span of 16 rows takes SLC_LINEAR_TILE bytes. Scratch holds a slice of at most SLC_LINEAR_DEPTH
// inputs of a group of at most SLC_LINEAR_ROWS rows, or all inputs of up to SLC_LINEAR_FEW rows.
enum {
	SLC_LINEAR_SPAN = 128,
	SLC_LINEAR_TILE = 16 * (3 * SLC_LINEAR_SPAN + 4),
	SLC_LINEAR_DEPTH = 768,
	SLC_LINEAR_ROWS = 512,
	SLC_LINEAR_FEW = 128
};

static inline int64_t slc_linear_spans(int64_t in) { return (in + SLC_LINEAR_SPAN - 1) / SLC_LINEAR_SPAN; }

// With Winograd's inner products, a slice of at most SLC_WINOGRAD_DEPTH inputs of a row takes SLC_WINOGRAD_ROW floats
// of scratch, which holds all slices of up to SLC_WINOGRAD_FEW rows, else one slice of a group of rows.
enum {
	SLC_WINOGRAD_STEP = 4,
	SLC_WINOGRAD_DEPTH = 384,
	SLC_WINOGRAD_ROW = SLC_WINOGRAD_DEPTH + 16,
	SLC_WINOGRAD_FEW = 32,
	SLC_WINOGRAD_GROUP = 512
};

static inline int64_t slc_winograd_whole(int64_t n) {
	return (n + SLC_WINOGRAD_STEP - 1) / SLC_WINOGRAD_STEP * SLC_WINOGRAD_STEP;
}

static inline int64_t slc_winograd_slices(int64_t in) { return (in + SLC_WINOGRAD_DEPTH - 1) / SLC_WINOGRAD_DEPTH; }

// slc_winograd_depth returns the inputs of every slice but the last: a multiple of SLC_WINOGRAD_STEP.
static inline int64_t slc_winograd_depth(int64_t in) {
	const int64_t slices = slc_winograd_slices(in);
	return slc_winograd_whole((in + slices - 1) / slices);
}

// slc_winograd_inputs returns the vectors of a packed panel: one per input, rounded up to whole steps, and two per
// slice.
static inline int64_t slc_winograd_inputs(int64_t in) { return slc_winograd_whole(in) + 2 * slc_winograd_slices(in); }

// slc_linear_scratch_f32 returns the floats of scratch that a call needs; 0 for the other instruction sets.
int64_t slc_linear_scratch_f32(int32_t isa, int64_t rows, int64_t in);

// slc_linear_bytes_f32 returns the size of packed weights: slc_linear_panel · in floats per panel; with AMX the digits
// and steps of linear_amx_body.h.
int64_t slc_linear_bytes_f32(int32_t isa, int64_t out, int64_t in);
int32_t slc_linear_pack_f32(int32_t isa, void *to, const float *weights, int64_t stride, int64_t out, int64_t in,
                            slc_error *error);

// The same with 8-bit weights and inputs: with AMX, bfloat16 (linear_bf16_body.h). Elsewhere both sides have a step for
// each SLC_I8_GROUP inputs of a row, and a value is its code times the step, with an error of up to half a step;
// products of codes are exact. The codes of a row do not depend on the others.
enum { SLC_I8_GROUP = 32 };

int32_t slc_linear_i8(int32_t isa, const slc_linear *l, slc_error *error);

int64_t slc_linear_panel_i8(int32_t isa);

// slc_code_bytes returns the size of an input's code: 1, or 2 where 16 bits are multiplied. code_stride is in bytes.
int64_t slc_code_bytes(int32_t isa);

// slc_linear_bytes_i8 returns the size of packed weights. For each group of inputs a panel has the 8-bit codes, with
// four adjacent inputs of an output, eight with I8MM, or two where 16 bits are multiplied, then 32-bit integers that
// correct the offset of the inputs' codes, then the steps.
int64_t slc_linear_bytes_i8(int32_t isa, int64_t out, int64_t in);
int32_t slc_linear_pack_i8(int32_t isa, void *to, const float *weights, int64_t stride, int64_t out, int64_t in,
                           slc_error *error);

// slc_codes_i8 writes the codes of rows, each padded to a multiple of SLC_I8_GROUP values, and the steps of their
// groups. With AMX it writes bfloat16 and no steps, and pads to a multiple of 16 rows.
int32_t slc_codes_i8(int32_t isa, const float *x, int64_t rows, int64_t stride, int64_t in, uint8_t *codes,
                     int64_t code_stride, float *steps, int64_t step_stride, slc_error *error);

typedef void slc_linear_fn(const slc_linear *l);
typedef void slc_linear_pack_fn(float *to, const float *weights, int64_t stride, int64_t out, int64_t in);
typedef void slc_codes_fn(const float *x, int64_t rows, int64_t stride, int64_t in, uint8_t *codes,
                          int64_t code_stride, float *steps, int64_t step_stride);
slc_linear_fn slc_linear_f32_scalar, slc_linear_i8_scalar;
slc_codes_fn slc_codes_i8_scalar;
#if defined(__x86_64__)
slc_linear_fn slc_linear_f32_avx2, slc_linear_f32_avx512;
slc_linear_fn slc_linear_i8_avx2, slc_linear_i8_avxvnni, slc_linear_i8_avx512;
slc_linear_fn slc_linear_i8_avx512vnni;
slc_linear_fn slc_linear_f32_amx, slc_linear_f32_amx_emulated, slc_linear_bf16_amx, slc_linear_bf16_amx_emulated;
slc_linear_fn slc_linear_f32_winograd_avx2, slc_linear_f32_winograd_avx512;
slc_linear_pack_fn slc_linear_pack_f32_winograd_avx2, slc_linear_pack_f32_winograd_avx512;
slc_linear_pack_fn slc_linear_pack_f32_amx, slc_linear_pack_f32_amx_emulated;
slc_linear_pack_fn slc_linear_pack_bf16_amx, slc_linear_pack_bf16_amx_emulated;
slc_codes_fn slc_codes_i8_avx2, slc_codes_i8_avxvnni, slc_codes_i8_avx512, slc_codes_i8_avx512vnni, slc_codes_bf16_amx;
slc_codes_fn slc_codes_bf16_amx_emulated;
#elif defined(__aarch64__)
slc_linear_fn slc_linear_f32_neon, slc_linear_i8_neon, slc_linear_i8_dotprod, slc_linear_i8_i8mm;
slc_codes_fn slc_codes_i8_neon, slc_codes_i8_dotprod, slc_codes_i8_i8mm;
#endif

#endif
