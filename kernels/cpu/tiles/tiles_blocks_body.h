// The tiles of all formats but i8 on x86 and what AMX multiplies: products in register blocks of BLOCK_V vectors of
// columns x BLOCK_R rows, CHAIN steps at a time, or with WHOLE all steps, so that the sums of chains are added in
// registers. A file that includes it defines the sizes and, if BLOCK_R does not divide 32, BLOCK_ROWS, the rows in
// blocks of BLOCK_R, and BLOCK_REST, the size of the others. Between blocks a part of the previous tile is counted or
// written.
//
// A step takes a 4-byte word of each vector: a float, with I16 two codes, with I8 four, whose products STEP adds as
// integers without rounding. With I16 only the sum of a chain is a float, with I8 (INTEGERS) only the whole sum; the
// last chain multiplies by the steps. With SQUARES, a step takes more: tiles_squares_body.h.
#include "tiles_body.h"
#include "tiles_pending_body.h"

// CHAIN is the number of steps per sum, of floats or of integers; Bound depends on it. STEP_FLOATS is what a step reads
// of a panel, VECTOR_FLOATS of that what a vector has in a row, in units of 4 bytes.
#ifdef SQUARES
#define BLOCK_R 8
#define BLOCK_V (8 / W)
#else
enum { STEP_FLOATS = SLC_PANEL, VECTOR_FLOATS = 1 };
#if defined(I8)
enum { CHAIN = 64 };
#define FORMAT slc_tiles_i8_
#define INTEGERS
typedef ivec sums;
#define WORDS(dim) (((dim) + 3) / 4)
#elif defined(I16)
#include "pack_codes.h"
enum { CHAIN = I16_CHAIN / 2 };
#define FORMAT slc_tiles_i16_
typedef ivec sums;
#define WORDS(dim) (((dim) + 1) / 2)
#else
enum { CHAIN = 64 };
#define FORMAT slc_tiles_f32_
typedef vec sums;
#define WORDS(dim) (dim)
#define LOAD_WORDS(p) LOAD(p)
#define SET1_WORD(p) SET1(*(p))
#define STEP(s, x, y) MADD(s, x, y)
#define TO_FLOATS(s) (s)
#endif
#endif

#ifndef BLOCK_ROWS
#define BLOCK_ROWS SLC_PANEL
#define BLOCK_REST BLOCK_R
#endif

enum {
	LINE = 16,       // floats in a cache line
	BLOCKS = (BLOCK_ROWS / BLOCK_R + (SLC_PANEL - BLOCK_ROWS) / BLOCK_REST) * (SLC_PANEL / (BLOCK_V * W)), // in a tile
	// steps for each cache line that is prefetched
	RARE = (BLOCKS >= 32 ? 8 : BLOCKS >= 16 ? 4 : BLOCKS >= 8 ? 2 : 1) * SLC_PANEL / STEP_FLOATS
};

// scale holds the final factors of a block's values: steps of codes, NULL before the last chain.
typedef struct {
	const float *rows, *columns;
} scale;

// put writes a vector of the tile: row i and columns from j on of a block.
INLINE void put(float *p, vec v, scale by, int i, int j) {
#if defined(I16) || defined(INTEGERS)
	if (by.rows) v = v * (SET1(by.rows[i]) * LOAD(by.columns + j));
#else
	(void)by, (void)i, (void)j;
#endif
	STORE(p, v);
}

// add_chain adds the sums of a chain to a vector of the tile.
INLINE void add_chain(float *p, sums s, int first, scale by, int i, int j) {
#ifdef INTEGERS // so is the tile, up to the last chain
	if (!first) s = s + (sums)LOAD(p);
	vec v = by.rows ? TO_FLOATS(s) : (vec)s;
#else
	vec v = TO_FLOATS(s);
	if (!first) v = LOAD(p) + v;
#endif
	put(p, v, by, i, j);
}

#ifdef SQUARES
#include "tiles_squares_body.h"
#else
// multiply_steps adds n products to each sum of a block, and prefetches a cache line every RARE steps.
INLINE void multiply_steps(sums s[BLOCK_R][BLOCK_V], const float *a, const float *b, const int64_t n, const float *next,
		const int rows) {
#pragma GCC unroll 4
	for (int64_t k = 0; k < n; k++) {
		sums y[BLOCK_V];
		if (k % RARE == 0) __builtin_prefetch(next + k / RARE * LINE);
#pragma GCC unroll 4
		for (int j = 0; j < BLOCK_V; j++) y[j] = LOAD_WORDS(b + j * W);
#pragma GCC unroll 16
		for (int i = 0; i < rows; i++) {
			sums x = SET1_WORD(a + i);
#pragma GCC unroll 4
			for (int j = 0; j < BLOCK_V; j++) s[i][j] = STEP(s[i][j], x, y[j]);
		}
		a += SLC_PANEL;
		b += SLC_PANEL;
	}
}

// sum_chain computes the sums of up to CHAIN steps.
INLINE void sum_chain(sums s[BLOCK_R][BLOCK_V], const float *a, const float *b, int64_t steps, const float *next,
                      const int rows) {
#pragma GCC unroll 16
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
		for (int j = 0; j < BLOCK_V; j++) s[i][j] = (sums){0};
	if (steps >= CHAIN) multiply_steps(s, a, b, CHAIN, next, rows); // a constant, for the compiler
	else multiply_steps(s, a, b, steps, next, rows);
}

// multiply_rows adds `steps` steps of some rows and BLOCK_V vectors of columns to the tile. Meanwhile it prefetches
// CHAIN / RARE later cache lines from `next` on: CHAIN steps of a tile read 4 CHAIN lines in all.
INLINE void multiply_rows(const float *a, const float *b, int64_t steps, float *tile, int first, const float *next,
                          scale by, const int rows) {
	sums s[BLOCK_R][BLOCK_V];
#ifdef WHOLE
	vec all[BLOCK_R][BLOCK_V];
#pragma GCC unroll 16
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
		for (int j = 0; j < BLOCK_V; j++) all[i][j] = SET1(0);
	for (int64_t k = 0; k < steps; k += CHAIN) {
		sum_chain(s, a + k * SLC_PANEL, b + k * SLC_PANEL, steps - k, next + k / RARE * LINE, rows);
#pragma GCC unroll 16
		for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
			for (int j = 0; j < BLOCK_V; j++) all[i][j] += TO_FLOATS(s[i][j]);
	}
	(void)first;
#else
	sum_chain(s, a, b, steps, next, rows);
#endif
#pragma GCC unroll 16
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
		for (int j = 0; j < BLOCK_V; j++) {
			float *to = tile + i * SLC_PANEL + j * W;
#ifdef WHOLE
			put(to, all[i][j], by, i, j * W);
#else
			add_chain(to, s[i][j], first, by, i, j * W);
#endif
		}
}
#endif

// multiply takes BLOCK_R rows, multiply_rest BLOCK_REST.
OUTLINE void multiply(const float *a, const float *b, int64_t steps, float *tile, int first, const float *next,
                      scale by) {
	multiply_rows(a, b, steps, tile, first, next, by, BLOCK_R);
}

OUTLINE void multiply_rest(const float *a, const float *b, int64_t steps, float *tile, int first, const float *next,
                           scale by) {
	multiply_rows(a, b, steps, tile, first, next, by, BLOCK_REST);
}

INLINE void product(const slc_tiles *t, float *tile, int64_t row, int64_t column, pending *before, const int brackets,
                    const int best, const int write) {
	const int64_t words = WORDS(t->dim);
	const float *a = (const float *)t->rows.data + row * STEP_FLOATS * words;
	const float *b = (const float *)t->columns.data + column * STEP_FLOATS * words;
#ifdef WHOLE
	const int64_t part = words; // of an iteration
#else
	const int64_t part = CHAIN;
#endif
	const int64_t count = (words + part - 1) / part * BLOCKS; // iterations
	progress at;
	start_pending(&at, before);
	const int share = (int)((SLC_TILE / W + count - 1) / count); // vectors per iteration
	for (int64_t k = 0; k < words; k += part) {
		const int last = k + part >= words;
		const int64_t steps = last ? words - k : part, later = (k + part) * STEP_FLOATS;
		const float *next[2] = {a + later, last ? b : b + later}; // rows follow each other below one panel of columns
		int n = 0;
		for (int j = 0; j < SLC_PANEL; j += BLOCK_V * W)
			for (int i = 0; i < SLC_PANEL; i += i < BLOCK_ROWS ? BLOCK_R : BLOCK_REST, n++) {
				const float *x = a + k * STEP_FLOATS + i * VECTOR_FLOATS, *y = b + k * STEP_FLOATS + j * VECTOR_FLOATS;
				const float *ahead = next[n % 2] + n / 2 * (part / RARE * LINE);
				float *to = tile + i * SLC_PANEL + j;
				scale by = {0};
#if defined(I16) || defined(INTEGERS)
				if (last) by = (scale){t->rows.steps + row * SLC_PANEL + i, t->columns.steps + column * SLC_PANEL + j};
#endif
				if (i < BLOCK_ROWS) multiply(x, y, steps, to, k == 0, ahead, by);
				else multiply_rest(x, y, steps, to, k == 0, ahead, by);
				advance_pending(t, before, &at, share, brackets, best, write);
			}
	}
	finish_pending(t, before, &at, brackets, best, write);
	with_terms(t, tile, row, column);
}

#define NAME PASTE(FORMAT, ISA)
#include "tiles_loop_body.h"
