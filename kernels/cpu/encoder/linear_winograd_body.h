// The body of slc_linear_f32 by Winograd's inner products, compiled once per instruction set by
// linear_winograd_<isa>.c, for processors that execute additions in parallel with multiply-adds, such as AMD's: two of
// each per cycle.
//
// Two products of a sum become one (Winograd, "A new algorithm for inner product", 1968): with
//   (w₀ + x₁)·(w₁ + x₀) = w₀·x₀ + w₁·x₁ + w₀·w₁ + x₀·x₁
// a sum takes half the multiplications and as many additions as it has inputs; the sums of the last two terms depend
// only on the weights or only on the row, and are subtracted. If all sums were computed this way, the adders would be
// the limit, so some of a panel's vectors use ordinary multiply-adds.
//
// The last two terms should be no larger than the others, so a slice of a row, and of the weights of an output, is
// first multiplied by the power of two that brings the mean of its squares to [1/2, 4), and the sum by its inverse. A
// row's bits depend on that row alone. The rounding error is as large as for sums about twice as
// large (docs/adr/0008-encoder-products.md).
//
// A file that includes it also includes lanes_<isa>.h and defines ISA, BLOCK_R, BLOCK_V, WINOGRAD(j, pair), whether
// vector j of a panel uses Winograd's products for that pair of inputs, which may depend only on whether the pair is
// even, and
//   INPUTS                       the inputs of a step: 2 or 4
//   SHARES                       number of parts in which a step's weights are prefetched
//   MULTIPLY_STEP(s, rows, b, x) adds to the sums of rows the products of the inputs from x on with the weights at b
#include <string.h>

#include "linear.h"
#include "lanes_body.h"

enum { PANEL = BLOCK_V * W, STEP = SLC_WINOGRAD_STEP, DEPTH = SLC_WINOGRAD_DEPTH };
#define FEW_ROWS SLC_WINOGRAD_FEW
#define GROUP (SLC_WINOGRAD_GROUP / BLOCK_R * BLOCK_R)

// factor returns the power of two that brings squares, the sum of n squares, close to n: 2^±64 at most.
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
#define EVEN_PAIRS ((ivec){-1, -1, 0, 0, -1, -1, 0, 0, -1, -1, 0, 0, -1, -1, 0, 0})
#else
#define SWAPPED(v) __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6)
#define EVEN_PAIRS ((ivec){-1, -1, 0, 0, -1, -1, 0, 0})
#endif

// room returns a slice of the rows of a call, SLC_WINOGRAD_ROW floats per row: the scaled inputs, padded with zeros;
// from DEPTH on, the sums of the products of even and of odd pairs, and the inverse scale factors.
INLINE float *room(const slc_linear *l, int64_t from) {
	return l->scratch + (l->rows <= FEW_ROWS ? l->rows * (from / slc_winograd_depth(l->in)) * SLC_WINOGRAD_ROW : 0);
}

// scale_rows writes a slice of the rows [row, row + rows) to room.
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
		const vec both = (products[0] + products[1]) + (products[2] + products[3]); // of a pair, in two lanes
		to[DEPTH] = total((vec)((ivec)both & EVEN_PAIRS)) * .5f;
		to[DEPTH + 1] = total((vec)((ivec)both & ~EVEN_PAIRS)) * .5f;
		to[DEPTH + 2] = 1 / f;
	}
}

// The rows of y, and of the residuals or NULL, for a block's sums.
typedef struct {
	const float *y, *residual;
	int64_t y_stride, residual_stride;
} outputs;

INLINE outputs outputs_of(const slc_linear *l, int ends, int64_t row, int64_t column) {
	const float *residual = ends && l->residual ? l->residual + row * l->residual_stride + column : NULL;
	return (outputs){l->y + row * l->y_stride + column, residual, l->y_stride, l->residual_stride};
}

// fetch prefetches the next of a block's output rows and their residuals.
INLINE void fetch(outputs *o) {
#pragma GCC unroll 4
	for (int j = 0; j < PANEL; j += 16) __builtin_prefetch(o->y + j, 1);
	o->y += o->y_stride;
	if (!o->residual) return;
#pragma GCC unroll 4
	for (int j = 0; j < PANEL; j += 16) __builtin_prefetch(o->residual + j);
	o->residual += o->residual_stride;
}

// multiply writes the sums of rows whose scaled inputs are at a. After the weights, b has the sums of the products of
// adjacent weights, and the inverse scale factors. For each of `rows` parts of the inputs it prefetches an output row,
// so that its own loads compete with few others. Unless next is NULL, it also prefetches `share` of the SHARES parts of
// the next weights, from part `begin` on. rows and fetches (next is not NULL) are constants at each call.
INLINE void multiply(float *sums, const float *a, const float *b, int64_t n, outputs o, const float *next,
		int64_t begin, int64_t share, const int fetches, const int rows) {
	vec s[BLOCK_R][BLOCK_V];
#pragma GCC unroll 16
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
		for (int j = 0; j < BLOCK_V; j++) s[i][j] = SET1(0.f);
	const int64_t steps = (n + STEP - 1) / STEP, part = (steps + rows - 1) / rows * STEP;
	const float *x = a, *end = a + steps * STEP;
	const int64_t lines = share * (INPUTS * PANEL / 16 / SHARES); // prefetched per step
	if (fetches) next += begin * steps * (STEP * PANEL / SHARES);
	while (x < end) {
		fetch(&o);
		for (const float *stop = end - x < part ? end : x + part; x < stop; b += INPUTS * PANEL, x += INPUTS) {
			if (fetches)
				for (int64_t j = 0; j < lines; j++, next += 16) __builtin_prefetch(next, 0, 1); // second cache only
			MULTIPLY_STEP(s, rows, b, x);
		}
	}
#pragma GCC unroll 16
	for (int i = 0; i < rows; i++) {
		const float *own = a + i * SLC_WINOGRAD_ROW + DEPTH;
#pragma GCC unroll 4
		for (int j = 0; j < BLOCK_V; j++) {
			vec v = s[i][j];
			if (WINOGRAD(j, 0) || WINOGRAD(j, 1))
				v = v - LOAD(b + j * W) - SET1((WINOGRAD(j, 0) ? own[0] : 0) + (WINOGRAD(j, 1) ? own[1] : 0));
			STORE(sums + i * PANEL + j * W, v * LOAD(b + PANEL + j * W) * SET1(own[2]));
		}
	}
}

static __attribute__((noinline)) void multiply_rows(float *sums, const float *a, const float *b, int64_t n,
		outputs o, const float *next, int64_t begin, int64_t share, int64_t rows) {
#define ROWS(r) \
	case r: \
		if (next) multiply(sums, a, b, n, o, next, begin, share, 1, r < BLOCK_R ? r : BLOCK_R); \
		else multiply(sums, a, b, n, o, next, begin, share, 0, r < BLOCK_R ? r : BLOCK_R); \
		break;
	switch (rows) {
		ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5)
#if BLOCK_R > 5
		ROWS(6) ROWS(7) ROWS(8)
#endif
	}
#undef ROWS
}

#define NAME PASTE(slc_linear_f32_winograd_, ISA)
#define SUMS(l, sums, k, row, rows, panel, next, begin, share) \
	multiply_rows(sums, room(l, (k).from) + (row) % GROUP * SLC_WINOGRAD_ROW, WEIGHTS(l, panel, (k).from), (k).steps, \
	              outputs_of(l, (k).ends, row, (panel) * PANEL), next, begin, share, rows)
#define WEIGHTS(l, panel, from) \
	((const float *)(l)->weights + slc_winograd_inputs((l)->in) * PANEL * (panel) + \
	 ((from) + (from) / slc_winograd_depth((l)->in) * 2) * PANEL)
#define BEGIN_SLICE scale_rows
#define FETCH_OUTPUTS(l, k, row, rows, column) (void)0 // done by multiply
#include "linear_loop_body.h"

// The packed weights of a panel: for each slice its inputs, the sums of the products of adjacent weights, factors.
void PASTE(slc_linear_pack_f32_winograd_, ISA)(float *to, const float *weights, int64_t stride, int64_t out,
                                               int64_t in) {
	const int64_t depth = slc_winograd_depth(in);
	for (int64_t o = 0; o < out; o += PANEL)
		for (int64_t from = 0; from < in; from += depth) {
			const int64_t inputs = in - from < depth ? in - from : depth, whole = (inputs + STEP - 1) / STEP * STEP;
			float *products = to + whole * PANEL, *back = products + PANEL;
			for (int64_t j = 0; j < PANEL; j++) {
				const float *w = weights + (o + j) * stride + from;
				const int64_t n = o + j < out ? inputs : 0;
				float squares = 0;
				for (int64_t k = 0; k < n; k++) squares += w[k] * w[k];
				const float f = factor(squares, inputs);
				for (int64_t k = 0; k < whole; k++) to[k * PANEL + j] = k < n ? w[k] * f : 0;
				back[j] = 1 / f;
			}
			for (int64_t j = 0; j < PANEL; j += W) { // in the kernel's order, so that inputs of 0 give 0
				vec sum = SET1(0.f);
				for (int64_t k = 0; k < whole; k += 2)
					if (WINOGRAD(j / W, k / 2 % 2))
						sum = MADD(sum, LOAD(to + k * PANEL + j), LOAD(to + (k + 1) * PANEL + j));
				STORE(products + j, sum);
			}
			to = back + PANEL;
		}
}
