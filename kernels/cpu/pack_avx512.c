//go:build amd64

// Packing for the AVX-512, VNNI and AMX tiles.
#pragma GCC target("avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")
#include <immintrin.h>
#include <string.h>
#include "tiles.h"

#define INLINE static inline __attribute__((always_inline))

// A panel's source rows, and what each is multiplied with.
typedef struct {
	const float *row[SLC_PANEL];
	double scale[SLC_PANEL];
	int64_t next; // from a row to the one that the next panel has in its place
	int n;
} sources;

static sources sources_of(const slc_packing *p, int64_t panel) {
	sources s = {.next = p->order ? 0 : SLC_PANEL * p->stride, .n = SLC_PANEL};
	if (p->n - panel * SLC_PANEL < SLC_PANEL) s.n = (int)(p->n - panel * SLC_PANEL);
	for (int i = 0; i < s.n; i++) {
		int64_t v = panel * SLC_PANEL + i, row = p->order ? p->order[v] : v;
		s.row[i] = p->rows + row * p->stride;
		s.scale[i] = !p->norms ? p->scale : p->norms[row] > 0 ? 1 / p->norms[row] : 0;
	}
	return s;
}

// sixteen is up to 16 elements of a row from k on, scaled in float64 and rounded once.
INLINE __m512 sixteen(const sources *s, int i, int64_t k, int64_t dim) {
	if (i >= s->n || k >= dim) return _mm512_setzero_ps();
	__mmask16 m = dim - k >= 16 ? 0xffff : (__mmask16)((1u << (dim - k)) - 1);
	__m512 x = _mm512_maskz_loadu_ps(m, s->row[i] + k);
	__builtin_prefetch(s->row[i] + s->next + k, 0, 2);
	__m512d scale = _mm512_set1_pd(s->scale[i]);
	__m256 low = _mm512_cvtpd_ps(_mm512_mul_pd(_mm512_cvtps_pd(_mm512_castps512_ps256(x)), scale));
	__m256 high = _mm512_cvtpd_ps(_mm512_mul_pd(_mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1)), scale));
	return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
}

// bf16 rounds to the nearest, ties to even; the result stays in the upper halves.
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

// transpose turns 16 lines of 16 words of 4 bytes around.
INLINE void transpose(__m512 r[16]) {
	__m512 t[16];
	for (int i = 0; i < 16; i += 4) { // words between pairs of lines, then pairs of words
		__m512 a = _mm512_unpacklo_ps(r[i], r[i + 1]), b = _mm512_unpackhi_ps(r[i], r[i + 1]);
		__m512 c = _mm512_unpacklo_ps(r[i + 2], r[i + 3]), d = _mm512_unpackhi_ps(r[i + 2], r[i + 3]);
		t[i] = _mm512_shuffle_ps(a, c, 0x44), t[i + 1] = _mm512_shuffle_ps(a, c, 0xee);
		t[i + 2] = _mm512_shuffle_ps(b, d, 0x44), t[i + 3] = _mm512_shuffle_ps(b, d, 0xee);
	}
	for (int i = 0; i < 4; i++) { // blocks of four words between fours of lines
		__m512 a = _mm512_shuffle_f32x4(t[i], t[i + 4], 0x88), b = _mm512_shuffle_f32x4(t[i], t[i + 4], 0xdd);
		__m512 c = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0x88), d = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0xdd);
		r[i] = _mm512_shuffle_f32x4(a, c, 0x88), r[i + 8] = _mm512_shuffle_f32x4(a, c, 0xdd);
		r[i + 4] = _mm512_shuffle_f32x4(b, d, 0x88), r[i + 12] = _mm512_shuffle_f32x4(b, d, 0xdd);
	}
}

// place puts 16 vectors' lines of 64 bytes into a tile: as they are (left), or in columns of 4 bytes (right).
INLINE void place(uint8_t *tile, __m512i *lines, int right) {
	__m512 words[16];
	for (int i = 0; i < 16; i++) words[i] = _mm512_castsi512_ps(lines[i]);
	if (right) transpose(words);
	for (int i = 0; i < 16; i++) _mm512_store_ps(tile + 64 * i, words[i]);
}

// widen takes a norm into the largest so far; NaN stays.
INLINE void widen(double *max, double square, double slack) {
	double norm = __builtin_sqrt(square) * slack;
	if (!(norm <= *max) && *max == *max) *max = norm;
}

// finish accounts for a panel: sums of squares are of float32 lanes (hence the slack of 1e-5).
INLINE void finish(slc_packing *p, const sources *s, int64_t panel, const __m512 *squares, const __m512 *rest, const __m512 *low) {
	for (int i = 0; i < SLC_PANEL; i++) {
		float norm2 = _mm512_reduce_add_ps(squares[i]);
		if (p->norms) norm2 = i < s->n && s->scale[i] > 0;
		widen(&p->norm, norm2, 1 + 1e-5);
		widen(&p->residual, _mm512_reduce_add_ps(rest[i]), 1 + 1e-5);
		widen(&p->low, _mm512_reduce_add_ps(low[i]), 1 + 1e-5);
		if (p->terms) p->terms[panel * SLC_PANEL + i] = 0;
	}
}

// exact_terms computes l2's -1/2 |x|^2 of the scaled rows in float64.
static void exact_terms(slc_packing *p, const sources *s, int64_t panel) {
	if (!p->terms) return;
	for (int i = 0; i < s->n; i++) {
		__m512d sum = _mm512_setzero_pd();
		for (int64_t k = 0; k < p->dim; k += 16) {
			__m512 x = sixteen(s, i, k, p->dim);
			__m512d a = _mm512_cvtps_pd(_mm512_castps512_ps256(x)), b = _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
			sum = _mm512_fmadd_pd(a, a, _mm512_fmadd_pd(b, b, sum));
		}
		p->terms[panel * SLC_PANEL + i] = (float)(-0.5 * _mm512_reduce_add_pd(sum));
	}
}

void slc_pack_f32_avx512(slc_packing *p) {
	for (int64_t panel = p->from; panel < p->to; panel++) {
		sources s = sources_of(p, panel);
		__m512 squares[SLC_PANEL], none[SLC_PANEL];
		for (int i = 0; i < SLC_PANEL; i++) squares[i] = none[i] = _mm512_setzero_ps();
		float *to = (float *)p->data + panel * SLC_PANEL * p->dim;
		for (int64_t k = 0; k < p->dim; k += 16) {
			const int steps = p->dim - k < 16 ? (int)(p->dim - k) : 16;
			for (int half = 0; half < SLC_PANEL; half += 16) {
				__m512 words[16];
				for (int i = 0; i < 16; i++) {
					words[i] = sixteen(&s, half + i, k, p->dim);
					squares[half + i] = _mm512_fmadd_ps(words[i], words[i], squares[half + i]);
				}
				transpose(words);
				for (int j = 0; j < steps; j++) _mm512_store_ps(to + (k + j) * SLC_PANEL + half, words[j]);
			}
		}
		finish(p, &s, panel, squares, none, none);
		exact_terms(p, &s, panel);
	}
	// A cosine's elements are rounded once; powers of two lose nothing but what falls below the smallest float.
	p->residual = (p->norms ? 0x1p-24 * p->norm * (1 + 0x1p-20) : 0) + 0x1p-149 * (double)p->dim;
}

// pack_bf16 splits x into `parts` bfloat16, each the rounded rest of those before; three hold all of a float.
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
			if (_mm512_reduce_add_ps(squares[i]) < 0x1p-90f && _mm512_test_epi32_mask(_mm512_castps_si512(any[i]), _mm512_set1_epi32(0x7fffffff)))
				p->is_short = 1;
		finish(p, &s, panel, squares, rest, low);
		exact_terms(p, &s, panel);
	}
	// What float32 lost before the split, and squares too small for float32.
	p->residual += (p->norms ? 0x1p-24 * p->norm * (1 + 0x1p-20) : 0) + 0x1p-74 * (double)p->dim;
	p->low += 0x1p-74 * (double)p->dim;
}

void slc_pack_f32_amx(slc_packing *p) { pack_bf16(p, 3); }
void slc_pack_bf16x3_avx512(slc_packing *p) { pack_bf16(p, 2); }
void slc_pack_bf16_avx512(slc_packing *p) { pack_bf16(p, 1); }

// i8: codes round(x / step), step = max |x| / 127 of the vector.
void slc_pack_i8_avx512(slc_packing *p) {
	const int64_t steps = (p->dim + 63) / 64;
	for (int64_t panel = p->from; panel < p->to; panel++) {
		sources s = sources_of(p, panel);
		__m512 squares[SLC_PANEL], rest[SLC_PANEL], low[SLC_PANEL];
		float step[SLC_PANEL], inverse[SLC_PANEL];
		int32_t sums[SLC_PANEL] = {0};
		for (int i = 0; i < SLC_PANEL; i++) {
			__m512 most = _mm512_setzero_ps();
			squares[i] = rest[i] = low[i] = _mm512_setzero_ps();
			for (int64_t k = 0; k < p->dim; k += 16) most = _mm512_max_ps(most, _mm512_abs_ps(sixteen(&s, i, k, p->dim)));
			float m = _mm512_reduce_max_ps(most);
			step[i] = m / 127 > 0x1p-100f ? m / 127 : 0;
			inverse[i] = step[i] > 0 ? 1 / step[i] : 0;
		}
		for (int64_t k = 0; k < steps; k++) {
			for (int half = 0; half < 2; half++) {
				__m512i lines[16];
				for (int j = 0; j < 16; j++) {
					const int i = half * 16 + j;
					__m128i part[4];
					for (int g = 0; g < 4; g++) {
						__m512 x = sixteen(&s, i, k * 64 + g * 16, p->dim);
						__m512i code = _mm512_cvtps_epi32(_mm512_mul_ps(x, _mm512_set1_ps(inverse[i])));
						code = _mm512_max_epi32(_mm512_min_epi32(code, _mm512_set1_epi32(127)), _mm512_set1_epi32(-127));
						__m512 d = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(code), _mm512_set1_ps(step[i]), x);
						squares[i] = _mm512_fmadd_ps(x, x, squares[i]);
						rest[i] = _mm512_fmadd_ps(d, d, rest[i]);
						sums[i] += _mm512_reduce_add_epi32(code);
						if (!p->right) code = _mm512_add_epi32(code, _mm512_set1_epi32(128));
						part[g] = _mm512_cvtepi32_epi8(code);
					}
					lines[j] = _mm512_inserti32x4(_mm512_castsi128_si512(part[0]), part[1], 1);
					lines[j] = _mm512_inserti32x4(_mm512_inserti32x4(lines[j], part[2], 2), part[3], 3);
				}
				place((uint8_t *)p->data + (panel * steps + k) * 2048 + half * 1024, lines, p->right);
			}
		}
		finish(p, &s, panel, squares, rest, low);
		exact_terms(p, &s, panel);
		for (int i = 0; i < SLC_PANEL; i++) {
			p->steps[panel * SLC_PANEL + i] = step[i];
			if (p->right) p->sums[panel * SLC_PANEL + i] = 128 * sums[i];
		}
	}
	// Float32's share of the differences, on top of what the codes lose.
	p->residual += 0x1p-22 * p->norm + 0x1p-74 * (double)p->dim;
}
