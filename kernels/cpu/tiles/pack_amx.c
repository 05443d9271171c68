//go:build amd64 && !noamx

// Panels of bfloat16 parts for the AMX tiles, packed with AVX-512.
#pragma GCC target("avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")
#include "pack_avx512.h"
#include "pack_lines_avx512.h"

// bf16 rounds to the nearest bfloat16, ties to even; the result stays in the upper halves.
INLINE __m512 bf16(__m512 x) {
	__m512i u = _mm512_castps_si512(x);
	__m512i odd = _mm512_and_epi32(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
	u = _mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
	return _mm512_castsi512_ps(_mm512_and_epi32(u, _mm512_set1_epi32((int)0xffff0000)));
}

// halves is 32 bfloat16, element 2j in the lower half of lane j.
INLINE __m512i halves(__m512 low, __m512 high) {
	__m512i l = _mm512_castsi256_si512(_mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(low), 16)));
	return _mm512_inserti64x4(l, _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(high), 16)), 1);
}

// pack_bf16 splits x into `parts` bfloat16, each the rounded remainder of the previous ones; three hold a whole float.
INLINE void pack_bf16(slc_packing *p, const int parts) {
	const int64_t steps = (p->dim + 31) / 32, bytes = 2048 * parts;
	for (int64_t panel = p->from; panel < p->to; panel++) {
		sources s = sources_of(p, panel);
		__m512 squares[SLC_PANEL], rest[SLC_PANEL], low[SLC_PANEL], any[SLC_PANEL];
		for (int i = 0; i < SLC_PANEL; i++) squares[i] = rest[i] = low[i] = any[i] = _mm512_setzero_ps();
		for (int64_t k = 0; k < steps; k++) {
			uint8_t *to = (uint8_t *)p->data + (panel * steps + k) * bytes;
			for (int half = 0; half < 2; half++) {
				__m512i lines[3][16];
				for (int j = 0; j < 16; j++) {
					const int i = half * 16 + j;
					__m512 x = sixteen(&s, i, k * 32, p->dim), y = sixteen(&s, i, k * 32 + 16, p->dim);
					squares[i] = _mm512_fmadd_ps(x, x, _mm512_fmadd_ps(y, y, squares[i]));
					any[i] = _mm512_or_ps(any[i], _mm512_or_ps(x, y));
#pragma GCC unroll 3
					for (int part = 0; part < parts; part++) {
						__m512 px = bf16(x), py = bf16(y);
						lines[part][j] = halves(px, py);
						x = x - px, y = y - py;
						if (part == 1) low[i] = _mm512_fmadd_ps(px, px, _mm512_fmadd_ps(py, py, low[i]));
					}
					rest[i] = _mm512_fmadd_ps(x, x, _mm512_fmadd_ps(y, y, rest[i]));
				}
				for (int part = 0; part < parts; part++) place(to + part * 2048 + half * 1024, lines[part], p->right);
			}
		}
		for (int i = 0; i < s.n; i++)
			if (_mm512_reduce_add_ps(squares[i]) < 0x1p-90f &&
				_mm512_test_epi32_mask(_mm512_castps_si512(any[i]), _mm512_set1_epi32(0x7fffffff)))
				p->is_short = 1;
		finish(p, &s, panel, squares, rest, low);
		exact_terms(p, &s, panel);
	}
	// The float32 error before the split, and squares too small for float32.
	p->residual += (p->norms ? 0x1p-24 * p->norm * (1 + 0x1p-20) : 0) + 0x1p-74 * (double)p->dim;
	p->low += 0x1p-74 * (double)p->dim;
}

void slc_pack_f32_amx(slc_packing *p) { pack_bf16(p, 3); }
void slc_pack_bf16x3_amx(slc_packing *p) { pack_bf16(p, 2); }
void slc_pack_bf16_amx(slc_packing *p) { pack_bf16(p, 1); }
