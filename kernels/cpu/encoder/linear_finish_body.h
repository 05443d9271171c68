// What follows the products of a slice: adding the previous slices, bias, activation and residual. A file that includes
// it defines PANEL, the outputs of a panel; LOOKUP to use gelu_table_body.h; and BF16, TILE and STEP if outputs may be
// written as the codes of linear_bf16_body.h.
#ifdef LOOKUP
#include "gelu_table_body.h"
#endif

typedef struct {
	int64_t from, steps; // inputs of this sum
	int starts, ends;    // whether it is the first, the last slice of a product
} slice;

// activate applies one of the activations, a constant at each call. MAX and MIN return their second operand if one is
// NaN, so NaN is preserved.
INLINE vec activate(vec x, const int activation) {
	vec half = SET1(.5f) * x;
	switch (activation) {
#ifdef LOOKUP
	case SLC_GELU: return gelu_by_table(x);
#else
	case SLC_GELU: // below -4√2 erf is −1 except for rounding, which must not be multiplied by a larger x
		half = MAX(SET1(-2.8284271f), half);
		return MADD(half, half, error_function(x * SET1(0.70710678118654752f)));
#endif
	case SLC_GELU_TANH:
		return MADD(half, half, hyperbolic_tangent(SET1(0.7978845608028654f) * MADD(x, SET1(.044715f) * x, x * x)));
	case SLC_RELU: return MAX(SET1(0.f), x);
	case SLC_TANH: return hyperbolic_tangent(x);
	default: return x;
	}
}

// output_of adds the sums of n outputs to those of the previous slices, which are in y, and finishes the product after
// the last slice. n is W except at the end of a row: whole vectors are faster to read.
INLINE vec output_of(const slc_linear *l, const float *sums, slice k, int64_t row, int64_t at, const int64_t n,
		const int activation) {
	const float *y = l->y + row * l->y_stride + at;
	vec v = LOAD(sums);
	if (!k.starts) v = (n == W ? LOAD(y) : LOADN(y, n)) + v;
	if (!k.ends) return v;
	if (l->bias) v = v + (n == W ? LOAD(l->bias + at) : LOADN(l->bias + at, n));
	v = activate(v, activation);
	if (l->residual) {
		const float *r = l->residual + row * l->residual_stride + at;
		v = v + (n == W ? LOAD(r) : LOADN(r, n));
	}
	return v;
}

INLINE void finish_lanes(const slc_linear *l, const float *sums, slice k, int64_t row, int64_t at, const int64_t n,
		const int activation) {
	const vec v = output_of(l, sums, k, row, at, n, activation);
	float *y = l->y + row * l->y_stride + at;
	if (n == W) STORE(y, v);
	else STOREN(y, v, n);
}

#ifdef BF16
// finish_codes finishes a product whose outputs are the codes of the next one's inputs (slc_codes_i8): a panel is a
// step.
INLINE void finish_codes(const slc_linear *l, const float *sums, slice k, int64_t row, int64_t rows, int64_t column,
		const int activation) {
	const int64_t left = l->out - column;
	for (int64_t i = row; i < row + rows; i++, sums += PANEL) {
		uint8_t *to = l->y_codes + i / TILE * TILE * l->y_code_stride + (column * TILE + i % TILE * STEP) * 2;
		vec v[PANEL / W];
#pragma GCC unroll 4
		for (int j = 0; j < PANEL / W; j++) {
			const int64_t at = column + j * W, rest = left - j * W;
			v[j] = SET1(0.f);
			if (left >= PANEL || rest >= W) v[j] = output_of(l, sums + j * W, k, i, at, W, activation);
			else if (rest > 0) v[j] = choose(below(rest), output_of(l, sums + j * W, k, i, at, rest, activation), v[j]);
		}
#pragma GCC unroll 2
		for (int j = 0; j < PANEL / W; j += 2) BF16(to + 2 * j * W, v[j], v[j + 1]);
	}
}
#endif

// finish_whole is finish for whole panels. Fields of l are copied to variables, since a store to y might alias l.
INLINE void finish_whole(const slc_linear *l, const float *sums, slice k, int64_t row, int64_t rows, int64_t column,
		const int activation) {
	float *y = l->y + row * l->y_stride + column;
	const int64_t y_stride = l->y_stride, residual_stride = l->residual_stride;
	const float *r = k.ends && l->residual ? l->residual + row * residual_stride + column : NULL;
	const float *bias = k.ends && l->bias ? l->bias + column : NULL;
	const int ends = k.ends, starts = k.starts;
	vec b[PANEL / W];
#pragma GCC unroll 8
	for (int j = 0; j < PANEL / W; j++) b[j] = bias ? LOAD(bias + j * W) : SET1(0.f);
	for (int64_t i = 0; i < rows; i++, sums += PANEL, y += y_stride, r += r ? residual_stride : 0)
#pragma GCC unroll 8
		for (int j = 0; j < PANEL / W; j++) {
			vec v = LOAD(sums + j * W);
			if (!starts) v = LOAD(y + j * W) + v;
			if (bias) v = v + b[j];
			if (ends) v = activate(v, activation);
			if (r) v = v + LOAD(r + j * W);
			STORE(y + j * W, v);
		}
}

INLINE void finish(const slc_linear *l, const float *sums, slice k, int64_t row, int64_t rows, int64_t column,
		const int activation) {
#ifdef BF16
	if (k.ends && l->y_codes) {
		finish_codes(l, sums, k, row, rows, column, activation);
		return;
	}
#endif
	if (column + PANEL <= l->out) {
		finish_whole(l, sums, k, row, rows, column, activation);
		return;
	}
	for (int64_t i = row; i < row + rows; i++, sums += PANEL)
		for (int64_t j = 0; j < PANEL && column + j < l->out; j += W) {
			const int64_t left = l->out - column - j;
			if (left >= W) finish_lanes(l, sums + j, k, i, column + j, W, activation);
			else finish_lanes(l, sums + j, k, i, column + j, left, activation);
		}
}
