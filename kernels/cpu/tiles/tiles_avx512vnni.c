//go:build amd64

#include "optimize.h"

// AVX-512 VNNI: i8 tiles in register blocks of 2 x 16 columns x 8 rows, four products a lane and step.
#pragma GCC target("avx512f,avx512dq,avx512vl,avx512bw,avx512vnni,avx2,fma,bmi,bmi2,popcnt")
#include "tiles_levels_avx512.h"
#include "tiles_body.h"
#include "tiles_pending_body.h"
#include "tiles_i8_avx512.h"

// multiply computes 8 rows of a tile. After every 64 elements it counts `share` vectors of the pending tile.
INLINE void multiply(const uint8_t *a, const uint8_t *b, int64_t steps, int32_t *tile, const slc_tiles *t,
                     const pending *before, progress *at, int share, const int brackets, const int best,
		const int write) {
	ivec s[8][2];
#pragma GCC unroll 8
	for (int i = 0; i < 8; i++) s[i][0] = s[i][1] = _mm512_setzero_si512();
	for (int64_t k = 0; k < steps; k++, a += 2048, b += 2048) {
		for (int g = 0; g < 16; g++) {
			ivec y0 = _mm512_load_si512(b + 64 * g), y1 = _mm512_load_si512(b + 1024 + 64 * g);
#pragma GCC unroll 8
			for (int i = 0; i < 8; i++) {
				int32_t four;
				memcpy(&four, a + 64 * i + 4 * g, sizeof four);
				ivec x = _mm512_set1_epi32(four);
				s[i][0] = _mm512_dpbusd_epi32(s[i][0], x, y0);
				s[i][1] = _mm512_dpbusd_epi32(s[i][1], x, y1);
			}
		}
		if (!write) advance_pending(t, before, at, share, brackets, best, 0);
	}
#pragma GCC unroll 8
	for (int i = 0; i < 8; i++) {
		_mm512_store_si512(tile + i * SLC_PANEL, s[i][0]);
		_mm512_store_si512(tile + i * SLC_PANEL + 16, s[i][1]);
	}
}

INLINE void product(const slc_tiles *t, float *tile, int64_t row, int64_t column, pending *before, const int brackets,
                    const int best, const int write) {
	const int64_t steps = (t->dim + 63) / 64;
	const int share = (int)((SLC_TILE / W + 4 * steps - 1) / (4 * steps));
	const uint8_t *a = (const uint8_t *)t->rows.data + row * steps * 2048;
	const uint8_t *b = (const uint8_t *)t->columns.data + column * steps * 2048;
	progress at;
	start_pending(&at, before);
	for (int i = 0; i < SLC_PANEL; i += 8) {
		multiply(a + i / 16 * 1024 + i % 16 * 64, b, steps, (int32_t *)tile + i * SLC_PANEL, t, before, &at, share,
		         brackets, best, write);
		if (write) advance_pending(t, before, &at, 8 * PER_ROW, 0, 0, 1);
	}
	finish_pending(t, before, &at, brackets, best, write);
	to_floats(t, tile, row, column);
	with_terms(t, tile, row, column);
}

#define NAME slc_tiles_i8_avx512vnni
#include "tiles_loop_body.h"
