// The f32 tiles: products in register blocks of MICRO_V x MICRO_R, KBLOCK at a time.
#include "tiles_body.h"

#define MICROS (SLC_PANEL / MICRO_R * (SLC_PANEL / (MICRO_V * W))) // register blocks of a tile
#define LINE 16                                                    // floats in a cache line
#define BLOCK_LINES (2 * KBLOCK * SLC_PANEL / LINE)                // cache lines that KBLOCK products of a tile read

// micro adds `steps` products per pair of MICRO_R rows and MICRO_V vectors of lanes to the tile. Meanwhile it prefetches
// its share, 1/MICROS, of the cache lines that come after these, from `next` on.
INLINE void micro(const float *a, const float *b, int64_t steps, float *tile, int first, const float *next) {
	const int rare = MICROS * KBLOCK / BLOCK_LINES; // steps for each line
	vec s[MICRO_R][MICRO_V];
#pragma GCC unroll 16
	for (int i = 0; i < MICRO_R; i++)
#pragma GCC unroll 4
		for (int j = 0; j < MICRO_V; j++) s[i][j] = SET1(0);
#pragma GCC unroll 4
	for (int64_t k = 0; k < steps; k++) {
		vec y[MICRO_V];
		if (k % rare == 0) __builtin_prefetch(next + k / rare * LINE);
#pragma GCC unroll 4
		for (int j = 0; j < MICRO_V; j++) y[j] = LOAD(b + j * W);
#pragma GCC unroll 16
		for (int i = 0; i < MICRO_R; i++) {
			vec x = SET1(a[i]);
#pragma GCC unroll 4
			for (int j = 0; j < MICRO_V; j++) s[i][j] = MADD(s[i][j], x, y[j]);
		}
		a += SLC_PANEL;
		b += SLC_PANEL;
	}
#pragma GCC unroll 16
	for (int i = 0; i < MICRO_R; i++)
#pragma GCC unroll 4
		for (int j = 0; j < MICRO_V; j++) {
			float *p = tile + i * SLC_PANEL + j * W;
			if (!first) s[i][j] = LOAD(p) + s[i][j];
			STORE(p, s[i][j]);
		}
}

static void product(const slc_tiles *t, float *tile, int64_t row, int64_t lane, unwritten *last_tile) {
	const float *a = (const float *)t->rows.data + row * SLC_PANEL * t->dim;
	const float *b = (const float *)t->lanes.data + lane * SLC_PANEL * t->dim;
	for (int64_t k = 0; k < t->dim; k += KBLOCK) {
		const int last = k + KBLOCK >= t->dim;
		const int64_t steps = last ? t->dim - k : KBLOCK, later = (k + KBLOCK) * SLC_PANEL;
		const float *next[2] = {a + later, last ? b : b + later}; // rows follow each other below one panel of lanes
		int n = 0;
		for (int j = 0; j < SLC_PANEL; j += MICRO_V * W)
			for (int i = 0; i < SLC_PANEL; i += MICRO_R, n++) {
				const float *x = a + k * SLC_PANEL + i, *y = b + k * SLC_PANEL + j;
				float *to = tile + i * SLC_PANEL + j;
				micro(x, y, steps, to, k == 0, next[n % 2] + n / 2 * (BLOCK_LINES / MICROS * LINE));
				write_rows(t, last_tile, 2);
			}
	}
	with_terms(t, tile, row, lane);
}

#define NAME PASTE(slc_tiles_f32_, ISA)
#include "tiles_sweep.h"
