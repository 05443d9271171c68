// The body of slc_linear_f32 by Winograd's inner products, compiled once per instruction set by linear_winograd_<isa>.c,
// for processors that add beside their multiply-adds, as AMD's do: two adders and two multipliers a cycle.
//
// Two products of a sum are one (Winograd, "A new algorithm for inner product", 1968): with
//   (w₀ + x₁)·(w₁ + x₀) = w₀·x₀ + w₁·x₁ + w₀·w₁ + x₀·x₁
// a sum takes half the multiplications and as many additions as it has inputs; the sums of the last two terms depend on
// the weights or on the row alone, and are subtracted. With all sums computed so, the adders would be the limit, so the
// last vectors of a panel are ordinary multiply-adds: PAIRED of the BLOCK_V vectors are Winograd's.
//
// The last two terms should be no larger than the others, so a slice of a row, and of the weights of an output, is first
// multiplied by the power of two that brings the mean of its squares to [1/2, 4), and the sum by its inverse. A row's
// bits depend on that row alone. Rounding is that of sums about twice as large (docs/adr/0052-winograd.md).
//
// A file that includes it defines ISA, BLOCK_R, BLOCK_V, PAIRED and
//   ADD(t, y, x)   t is y plus the value at x in all lanes
//   MULTIPLY1(s, y, x) adds y times the value at x to s
//   MULTIPLY(s, t, u) adds t·u to s
#include <string.h>

#include "linear.h"
#include "lanes_body.h"

enum { PANEL = BLOCK_V * W, STEP = 2, DEPTH = SLC_WINOGRAD_DEPTH };
#define ROW_STEP BLOCK_R
#define FEW_ROWS SLC_WINOGRAD_FEW
#define GROUP SLC_WINOGRAD_GROUP

// factor is the power of two that brings squares, the sum of n squares, near n: 2^±64 at most.
INLINE float factor(float squares, int64_t n) {
	const float mean = squares / (float)n;
	int32_t bits;
	memcpy(&bits, &mean, 4);
	bits = (127 - ((bits >> 23) - 127) / 2) << 23;
	float f;
	memcpy(&f, &bits, 4);
	return f;
}

#if W == 16
#define SWAPPED(v) __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14)
#else
#define SWAPPED(v) __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6)
#endif

// room is where a slice of the rows of a call lies, in SLC_WINOGRAD_ROW floats a row: the scaled inputs, zeros behind
// the last, half the sum of the products of neighbours both ways, and what the sum is to be multiplied by.
INLINE float *room(const slc_linear *l, int64_t from) {
	return l->scratch + (l->rows <= FEW_ROWS ? l->rows * (from / slc_winograd_depth(l->in)) * SLC_WINOGRAD_ROW : 0);
}

static void scale_rows(const slc_linear *l, int64_t from, int64_t inputs, int64_t row, int64_t rows) {
	float *to = room(l, from);
	for (int64_t i = row; i < row + rows; i++, to += SLC_WINOGRAD_ROW) {
		const float *x = l->x + i * l->x_stride + from;
		vec squares[4], products[4];
#pragma GCC unroll 4
		for (int u = 0; u < 4; u++) squares[u] = products[u] = SET1(0.f);
		int64_t j = 0;
		for (; j + 4 * W <= inputs; j += 4 * W)
#pragma GCC unroll 4
			for (int u = 0; u < 4; u++) {
				__builtin_prefetch(x + 2 * l->x_stride + j + u * W); // two rows ahead
				squares[u] = MADD(squares[u], LOAD(x + j + u * W), LOAD(x + j + u * W));
			}
		for (; j < inputs; j += W) {
			vec v = j + W <= inputs ? LOAD(x + j) : LOADN(x + j, inputs - j);
			squares[0] = MADD(squares[0], v, v);
		}
		const float f = factor(total((squares[0] + squares[1]) + (squares[2] + squares[3])), inputs);
		for (j = 0; j + 4 * W <= inputs; j += 4 * W)
#pragma GCC unroll 4
			for (int u = 0; u < 4; u++) {
				vec v = LOAD(x + j + u * W) * SET1(f);
				STORE(to + j + u * W, v);
				products[u] = MADD(products[u], v, SWAPPED(v));
			}
		for (; j < inputs; j += W) {
			vec v = (j + W <= inputs ? LOAD(x + j) : LOADN(x + j, inputs - j)) * SET1(f);
			STORE(to + j, v);
			products[0] = MADD(products[0], v, SWAPPED(v));
		}
		to[DEPTH] = total((products[0] + products[1]) + (products[2] + products[3])) * .5f, to[DEPTH + 1] = 1 / f;
	}
}

// outputs are the rows of y, and of the residuals or NULL, that a block's sums will go to.
typedef struct {
	const float *y, *residual;
	int64_t y_stride, residual_stride;
} outputs;

INLINE outputs outputs_of(const slc_linear *l, int ends, int64_t row, int64_t column) {
	const float *residual = ends && l->residual ? l->residual + row * l->residual_stride + column : NULL;
	return (outputs){l->y + row * l->y_stride + column, residual, l->y_stride, l->residual_stride};
}

// fetch prefetches the next of a block's rows of outputs, and their residuals.
INLINE void fetch(outputs *o) {
#pragma GCC unroll 4
	for (int j = 0; j < PANEL; j += 16) __builtin_prefetch(o->y + j, 1);
	o->y += o->y_stride;
	if (!o->residual) return;
#pragma GCC unroll 4
	for (int j = 0; j < PANEL; j += 16) __builtin_prefetch(o->residual + j);
	o->residual += o->residual_stride;
}

// multiply writes the sums of rows whose scaled inputs are at a. Behind the weights, b has the sums of the products of
// their neighbours, and what sums are to be multiplied by. Meanwhile it prefetches a row of the outputs for each of
// `rows` parts of the inputs, so that its own loads wait for few others, and, unless next is NULL, as many weights as
// it reads from there on. rows and fetches, which says that it is not, are constants at each call.
INLINE void multiply(float *sums, const float *a, const float *b, int64_t n, outputs o, const float *next,
		const int fetches, const int rows) {
	vec s[BLOCK_R][BLOCK_V];
#pragma GCC unroll 16
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
		for (int j = 0; j < BLOCK_V; j++) s[i][j] = SET1(0.f);
	const int64_t pairs = (n + 1) / 2, part = (pairs + rows - 1) / rows * 2;
	const float *x = a, *end = a + 2 * pairs;
	while (x < end) {
		fetch(&o);
		for (const float *stop = end - x < part ? end : x + part; x < stop; b += 2 * PANEL, x += 2) {
			vec y[2][BLOCK_V];
			if (fetches) {
#pragma GCC unroll 8
				for (int j = 0; j < 2 * PANEL; j += 16) __builtin_prefetch(next + j);
				next += 2 * PANEL;
			}
#pragma GCC unroll 4
			for (int j = 0; j < BLOCK_V; j++) y[0][j] = LOAD(b + j * W), y[1][j] = LOAD(b + PANEL + j * W);
#pragma GCC unroll 16
			for (int i = 0; i < rows; i++) {
				const float *x0 = x + i * SLC_WINOGRAD_ROW, *x1 = x0 + 1;
#pragma GCC unroll 4
				for (int j = 0; j < PAIRED; j++) {
					vec t, u;
					ADD(t, y[0][j], x1);
					ADD(u, y[1][j], x0);
					MULTIPLY(s[i][j], t, u);
				}
#pragma GCC unroll 4
				for (int j = PAIRED; j < BLOCK_V; j++) MULTIPLY1(s[i][j], y[0][j], x0);
#pragma GCC unroll 4
				for (int j = PAIRED; j < BLOCK_V; j++) MULTIPLY1(s[i][j], y[1][j], x1);
			}
		}
	}
#pragma GCC unroll 16
	for (int i = 0; i < rows; i++) {
		const vec own = SET1(a[i * SLC_WINOGRAD_ROW + DEPTH]), back = SET1(a[i * SLC_WINOGRAD_ROW + DEPTH + 1]);
#pragma GCC unroll 4
		for (int j = 0; j < BLOCK_V; j++) {
			vec v = s[i][j];
			if (j < PAIRED) v = v - LOAD(b + j * W) - own;
			STORE(sums + i * PANEL + j * W, v * LOAD(b + PANEL + j * W) * back);
		}
	}
}

static __attribute__((noinline)) void multiply_rows(float *sums, const float *a, const float *b, int64_t n,
		outputs o, const float *next, int64_t rows) {
#define ROWS(r) \
	case r: \
		if (next) multiply(sums, a, b, n, o, next, 1, r < BLOCK_R ? r : BLOCK_R); \
		else multiply(sums, a, b, n, o, next, 0, r < BLOCK_R ? r : BLOCK_R); \
		break;
	switch (rows) {
		ROWS(1) ROWS(2)
#if BLOCK_R > 2
		ROWS(3) ROWS(4) ROWS(5) ROWS(6) ROWS(7) ROWS(8)
#endif
	}
#undef ROWS
}

#define NAME PASTE(slc_linear_f32_winograd_, ISA)
#define SUMS(l, sums, k, row, rows, panel, next) \
	multiply_rows(sums, room(l, (k).from) + ((row) % GROUP) * SLC_WINOGRAD_ROW, WEIGHTS(l, panel, (k).from), (k).steps, \
	              outputs_of(l, (k).ends, row, (panel) * PANEL), next, rows)
#define WEIGHTS(l, panel, from) \
	((const float *)(l)->weights + slc_winograd_inputs((l)->in) * PANEL * (panel) + \
	 ((from) + (from) / slc_winograd_depth((l)->in) * 2) * PANEL)
#define BEGIN_SLICE scale_rows
#define FETCH_OUTPUTS(l, k, row, rows, column) (void)0 // multiply does
#include "linear_loop_body.h"

// The packed weights of a panel: for each slice its inputs, the sums of the products of neighbours, factors.
void PASTE(slc_linear_pack_f32_winograd_, ISA)(float *to, const float *weights, int64_t stride, int64_t out, int64_t in) {
	const int64_t depth = slc_winograd_depth(in);
	for (int64_t o = 0; o < out; o += PANEL)
		for (int64_t from = 0; from < in; from += depth) {
			const int64_t inputs = in - from < depth ? in - from : depth, even = (inputs + 1) / 2 * 2;
			float *products = to + even * PANEL, *back = products + PANEL;
			for (int64_t j = 0; j < PANEL; j++) {
				const float *w = weights + (o + j) * stride + from;
				const int64_t n = o + j < out ? inputs : 0;
				float squares = 0;
				for (int64_t k = 0; k < n; k++) squares += w[k] * w[k];
				const float f = factor(squares, inputs);
				for (int64_t k = 0; k < even; k++) to[k * PANEL + j] = k < n ? w[k] * f : 0;
				back[j] = 1 / f;
			}
			for (int64_t j = 0; j < PANEL; j += W) { // in the kernel's order, so that inputs of 0 give 0
				vec sum = SET1(0.f);
				for (int64_t k = 0; k < even; k += 2)
					sum = MADD(sum, LOAD(to + k * PANEL + j), LOAD(to + (k + 1) * PANEL + j));
				STORE(products + j, sum);
			}
			to = back + PANEL;
		}
}
