// The f32 tiles: products in register blocks of MICRO_V x MICRO_R, then the tile is consumed.
#include "tiles_body.h"

// micro adds `steps` products per pair of MICRO_R rows and MICRO_V vectors of lanes to the tile.
INLINE void micro(const float *a, const float *b, int64_t steps, float *tile, const int first) {
	vec s[MICRO_R][MICRO_V];
#pragma GCC unroll 16
	for (int i = 0; i < MICRO_R; i++)
#pragma GCC unroll 4
		for (int j = 0; j < MICRO_V; j++) s[i][j] = SET1(0);
#pragma GCC unroll 4
	for (int64_t k = 0; k < steps; k++) {
		vec y[MICRO_V];
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

static void product(const slc_tiles *t, float *tile, int64_t row, int64_t lane) {
	const float *a = (const float *)t->rows.data + row * SLC_PANEL * t->dim;
	const float *b = (const float *)t->lanes.data + lane * SLC_PANEL * t->dim;
	for (int64_t k = 0; k < t->dim; k += KBLOCK) {
		int64_t steps = t->dim - k < KBLOCK ? t->dim - k : KBLOCK;
		for (int j = 0; j < SLC_PANEL; j += MICRO_V * W)
			for (int i = 0; i < SLC_PANEL; i += MICRO_R) {
				float *to = tile + i * SLC_PANEL + j;
				const float *x = a + k * SLC_PANEL + i, *y = b + k * SLC_PANEL + j;
				if (k == 0) micro(x, y, steps, to, 1);
				else micro(x, y, steps, to, 0);
			}
	}
	with_terms(t, tile, row, lane);
}

#define NAME PASTE(slc_tiles_f32_, ISA)
#include "tiles_sweep.h"
