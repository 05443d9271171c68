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

// Packing: 32 vectors side by side, 16 elements of each at a time.
void PASTE(slc_pack_f32_, ISA)(slc_packing *p) {
	for (int64_t panel = p->from; panel < p->to; panel++) {
		float *to = (float *)p->data + panel * SLC_PANEL * p->dim;
		double squares[SLC_PANEL] = {0};
		const float *rows[SLC_PANEL];
		double scale[SLC_PANEL];
		int64_t n = p->n - panel * SLC_PANEL;
		if (n > SLC_PANEL) n = SLC_PANEL;
		for (int i = 0; i < n; i++) {
			int64_t v = panel * SLC_PANEL + i, row = p->order ? p->order[v] : v;
			rows[i] = p->rows + row * p->stride;
			scale[i] = !p->norms ? p->scale : p->norms[row] > 0 ? 1 / p->norms[row] : 0;
		}
		for (int64_t k = 0; k < p->dim; k += 16) {
			int64_t steps = p->dim - k < 16 ? p->dim - k : 16;
			float across[SLC_PANEL][16] = {{0}};
			for (int i = 0; i < n; i++) {
				float x[16] = {0};
				memcpy(x, rows[i] + k, (size_t)steps * sizeof x[0]);
				for (int j = 0; j < 16; j++) across[i][j] = (float)((double)x[j] * scale[i]);
			}
			float *at = to + k * SLC_PANEL;
			for (int64_t j = 0; j < steps; j++)
				for (int i = 0; i < SLC_PANEL; i++) at[j * SLC_PANEL + i] = across[i][j];
			for (int i = 0; i < SLC_PANEL && !p->norms; i++)
				for (int j = 0; j < 16; j++) squares[i] += (double)across[i][j] * (double)across[i][j];
		}
		for (int i = 0; i < SLC_PANEL; i++) {
			if (p->terms) p->terms[panel * SLC_PANEL + i] = (float)(-0.5 * squares[i]);
			double norm = p->norms ? (i < n && scale[i] > 0) * (1 + 0x1p-22) : __builtin_sqrt(squares[i]) * (1 + 0x1p-40);
			if (norm > p->norm) p->norm = norm;
		}
	}
	// A cosine's elements are rounded once; powers of two lose nothing but what falls below the smallest float.
	p->residual = (p->norms ? 0x1p-24 * p->norm * (1 + 0x1p-20) : 0) + 0x1p-149 * (double)p->dim;
}
