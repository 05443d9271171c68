// The f32 tiles: products in register blocks of BLOCK_V vectors of columns x BLOCK_R rows, CHAIN at a time. A file that
// includes it defines those two and, if BLOCK_R does not divide 32, BLOCK_ROWS, the rows in blocks of BLOCK_R, and
// BLOCK_REST, the size of the others; and PENDING_STEPS, if a block can count parts of the tile before between its
// products (else that happens between blocks).
#include "tiles_body.h"
#include "tiles_pending_body.h"

#ifndef BLOCK_ROWS
#define BLOCK_ROWS SLC_PANEL
#define BLOCK_REST BLOCK_R
#endif

enum {
	CHAIN = 64,      // products in one float32 sum; Bound counts on it
	LINE = 16,       // floats in a cache line
	BLOCKS = (BLOCK_ROWS / BLOCK_R + (SLC_PANEL - BLOCK_ROWS) / BLOCK_REST) * (SLC_PANEL / (BLOCK_V * W)), // in a tile
	RARE = BLOCKS >= 32 ? 8 : BLOCKS >= 16 ? 4 : BLOCKS >= 8 ? 2 : 1 // steps for each cache line that is prefetched
};

// How a block takes its turns at the pending tile.
typedef struct {
	const slc_tiles *t;
	pending *tile;
	progress *at;
	int share; // vectors a turn
	int brackets, best, write;
} turns;

INLINE void take_turn(const turns *u) {
	advance_pending(u->t, u->tile, u->at, u->share, u->brackets, u->best, u->write);
}

// multiply_steps adds n products to each sum of a block, and prefetches a cache line every RARE steps.
INLINE void multiply_steps(vec s[BLOCK_R][BLOCK_V], const float *a, const float *b, int64_t n, const float *next,
		const int rows) {
#pragma GCC unroll 4
	for (int64_t k = 0; k < n; k++) {
		vec y[BLOCK_V];
		if (k % RARE == 0) __builtin_prefetch(next + k / RARE * LINE);
#pragma GCC unroll 4
		for (int j = 0; j < BLOCK_V; j++) y[j] = LOAD(b + j * W);
#pragma GCC unroll 16
		for (int i = 0; i < rows; i++) {
			vec x = SET1(a[i]);
#pragma GCC unroll 4
			for (int j = 0; j < BLOCK_V; j++) s[i][j] = MADD(s[i][j], x, y[j]);
		}
		a += SLC_PANEL;
		b += SLC_PANEL;
	}
}

// multiply adds `steps` products per pair of some rows and BLOCK_V vectors of columns to the tile. Meanwhile it
// prefetches CHAIN / RARE cache lines that come after these, from `next` on: all that CHAIN products of a tile read has
// 4 CHAIN.
INLINE void multiply(const float *a, const float *b, int64_t steps, float *tile, int first, const float *next,
                     const int rows, const turns *u) {
	vec s[BLOCK_R][BLOCK_V];
#pragma GCC unroll 16
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
		for (int j = 0; j < BLOCK_V; j++) s[i][j] = SET1(0);
#ifdef PENDING_STEPS
	for (int64_t k = 0; k < steps; k += PENDING_STEPS) {
		const int64_t n = steps - k < PENDING_STEPS ? steps - k : PENDING_STEPS;
		multiply_steps(s, a + k * SLC_PANEL, b + k * SLC_PANEL, n, next + k / RARE * LINE, rows);
		if (!u->write) take_turn(u);
	}
#else
	(void)u;
	multiply_steps(s, a, b, steps, next, rows);
#endif
#pragma GCC unroll 16
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
		for (int j = 0; j < BLOCK_V; j++) {
			float *p = tile + i * SLC_PANEL + j * W;
			if (!first) s[i][j] = LOAD(p) + s[i][j];
			STORE(p, s[i][j]);
		}
}

INLINE void product(const slc_tiles *t, float *tile, int64_t row, int64_t column, pending *before, const int brackets,
                    const int best, const int write) {
	const float *a = (const float *)t->rows.data + row * SLC_PANEL * t->dim;
	const float *b = (const float *)t->columns.data + column * SLC_PANEL * t->dim;
	int64_t count = (t->dim + CHAIN - 1) / CHAIN * BLOCKS; // turns
#ifdef PENDING_STEPS
	if (!write) count *= CHAIN / PENDING_STEPS;
#endif
	progress at = start_pending(before);
	turns u = {t, before, &at, write ? 2 * PER_ROW : (int)((SLC_TILE / W + count - 1) / count), brackets, best, write};
	for (int64_t k = 0; k < t->dim; k += CHAIN) {
		const int last = k + CHAIN >= t->dim;
		const int64_t steps = last ? t->dim - k : CHAIN, later = (k + CHAIN) * SLC_PANEL;
		const float *next[2] = {a + later, last ? b : b + later}; // rows follow each other below one panel of columns
		int n = 0;
		for (int j = 0; j < SLC_PANEL; j += BLOCK_V * W)
			for (int i = 0; i < SLC_PANEL; i += i < BLOCK_ROWS ? BLOCK_R : BLOCK_REST, n++) {
				const float *x = a + k * SLC_PANEL + i, *y = b + k * SLC_PANEL + j;
				const float *ahead = next[n % 2] + n / 2 * (CHAIN / RARE * LINE);
				float *to = tile + i * SLC_PANEL + j;
				if (i < BLOCK_ROWS) multiply(x, y, steps, to, k == 0, ahead, BLOCK_R, &u);
				else multiply(x, y, steps, to, k == 0, ahead, BLOCK_REST, &u);
#ifdef PENDING_STEPS
				if (write)
#endif
					take_turn(&u);
			}
	}
	finish_pending(t, before, &at, brackets, best, write);
	with_terms(t, tile, row, column);
}

#define NAME PASTE(slc_tiles_f32_, ISA)
#include "tiles_loop_body.h"
