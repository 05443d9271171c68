// The f32 tiles: products in register blocks of MICRO_V x MICRO_R, KBLOCK at a time.
#include "tiles_body.h"

#ifndef MICRO_ROWS
#define MICRO_ROWS SLC_PANEL // rows of a tile in blocks of MICRO_R; the others are in blocks of MICRO_REST
#define MICRO_REST MICRO_R
#endif
#define MICROS ((MICRO_ROWS / MICRO_R + (SLC_PANEL - MICRO_ROWS) / MICRO_REST) * (SLC_PANEL / (MICRO_V * W))) // in a tile
#define RARE (MICROS >= 32 ? 8 : MICROS >= 16 ? 4 : MICROS >= 8 ? 2 : 1) // steps for each cache line that is prefetched
#define LINE 16                                                          // floats in a cache line

// micro adds `steps` products per pair of some rows and MICRO_V vectors of lanes to the tile. Meanwhile it prefetches
// KBLOCK / RARE cache lines that come after these, from `next` on: all that KBLOCK products of a tile read have 4 KBLOCK.
INLINE void micro(const float *a, const float *b, int64_t steps, float *tile, int first, const float *next, const int rows) {
	vec s[MICRO_R][MICRO_V];
#pragma GCC unroll 16
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
		for (int j = 0; j < MICRO_V; j++) s[i][j] = SET1(0);
#pragma GCC unroll 4
	for (int64_t k = 0; k < steps; k++) {
		vec y[MICRO_V];
		if (k % RARE == 0) __builtin_prefetch(next + k / RARE * LINE);
#pragma GCC unroll 4
		for (int j = 0; j < MICRO_V; j++) y[j] = LOAD(b + j * W);
#pragma GCC unroll 16
		for (int i = 0; i < rows; i++) {
			vec x = SET1(a[i]);
#pragma GCC unroll 4
			for (int j = 0; j < MICRO_V; j++) s[i][j] = MADD(s[i][j], x, y[j]);
		}
		a += SLC_PANEL;
		b += SLC_PANEL;
	}
#pragma GCC unroll 16
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
		for (int j = 0; j < MICRO_V; j++) {
			float *p = tile + i * SLC_PANEL + j * W;
			if (!first) s[i][j] = LOAD(p) + s[i][j];
			STORE(p, s[i][j]);
		}
}

INLINE void product(const slc_tiles *t, float *tile, int64_t row, int64_t lane, pending *before, const int brackets, const int best, const int write) {
	const int64_t micros = (t->dim + KBLOCK - 1) / KBLOCK * MICROS;
	const int share = write ? 2 : (int)((SLC_PANEL + micros - 1) / micros);
	const float *a = (const float *)t->rows.data + row * SLC_PANEL * t->dim;
	const float *b = (const float *)t->lanes.data + lane * SLC_PANEL * t->dim;
	for (int64_t k = 0; k < t->dim; k += KBLOCK) {
		const int last = k + KBLOCK >= t->dim;
		const int64_t steps = last ? t->dim - k : KBLOCK, later = (k + KBLOCK) * SLC_PANEL;
		const float *next[2] = {a + later, last ? b : b + later}; // rows follow each other below one panel of lanes
		int n = 0;
		for (int j = 0; j < SLC_PANEL; j += MICRO_V * W)
			for (int i = 0; i < SLC_PANEL; i += i < MICRO_ROWS ? MICRO_R : MICRO_REST, n++) {
				const float *x = a + k * SLC_PANEL + i, *y = b + k * SLC_PANEL + j, *ahead = next[n % 2] + n / 2 * (KBLOCK / RARE * LINE);
				float *to = tile + i * SLC_PANEL + j;
				if (i < MICRO_ROWS) micro(x, y, steps, to, k == 0, ahead, MICRO_R);
				else micro(x, y, steps, to, k == 0, ahead, MICRO_REST);
				take_rows(t, before, share, brackets, best, write);
			}
	}
	with_terms(t, tile, row, lane);
}

#define NAME PASTE(slc_tiles_f32_, ISA)
#include "tiles_loop_body.h"
