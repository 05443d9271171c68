//go:build amd64

// Panels of 8-bit codes for the VNNI and the AMX tiles, and of 16-bit codes for the VNNI tiles.
#pragma GCC target("avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")
#include "pack_avx512.h"
#include "pack_codes.h"
#include "pack_lines_avx512.h"

// i8: codes round(x / step), step = max |x| / 127 of the vector.
void slc_pack_i8_avx512vnni(slc_packing *p) {
	const int64_t steps = (p->dim + 63) / 64;
	for (int64_t panel = p->from; panel < p->to; panel++) {
		sources s = sources_of(p, panel);
		__m512 squares[SLC_PANEL], rest[SLC_PANEL], low[SLC_PANEL];
		float step[SLC_PANEL], inverse[SLC_PANEL];
		int32_t sums[SLC_PANEL] = {0};
		for (int i = 0; i < SLC_PANEL; i++) {
			__m512 highest = _mm512_setzero_ps();
			squares[i] = rest[i] = low[i] = _mm512_setzero_ps();
			for (int64_t k = 0; k < p->dim; k += 16)
				highest = _mm512_max_ps(highest, _mm512_abs_ps(sixteen(&s, i, k, p->dim)));
			float m = _mm512_reduce_max_ps(highest);
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
						code = _mm512_max_epi32(_mm512_min_epi32(code, _mm512_set1_epi32(127)),
							_mm512_set1_epi32(-127));
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
	// The float32 error, in addition to that of the codes.
	p->residual += 0x1p-22 * p->norm + 0x1p-74 * (double)p->dim;
}

// sixteen_step returns the step of vector i.
INLINE float sixteen_step(const sources *s, int i, int64_t dim) {
	__m512 highest = _mm512_setzero_ps();
	double longest = 0;
	for (int64_t k = 0; k < dim;) {
		__m512 squares = _mm512_setzero_ps();
		for (const int64_t end = k + I16_CHAIN; k < dim && k < end; k += 16) {
			const __m512 x = sixteen(s, i, k, dim);
			squares = _mm512_fmadd_ps(x, x, squares);
			highest = _mm512_max_ps(highest, _mm512_abs_ps(x));
		}
		const double sum = (double)_mm512_reduce_add_ps(squares);
		longest = sum > longest ? sum : longest;
	}
	return i16_step(longest, _mm512_reduce_max_ps(highest));
}

void slc_pack_i16_avx512vnni(slc_packing *p) {
	const int64_t words = (p->dim + 1) / 2;
	for (int64_t panel = p->from; panel < p->to; panel++) {
		sources s = sources_of(p, panel);
		__m512 squares[SLC_PANEL], rest[SLC_PANEL], low[SLC_PANEL];
		float *step = p->steps + panel * SLC_PANEL, inverse[SLC_PANEL];
		for (int i = 0; i < SLC_PANEL; i++) {
			squares[i] = rest[i] = low[i] = _mm512_setzero_ps();
			step[i] = sixteen_step(&s, i, p->dim);
			inverse[i] = step[i] > 0 ? 1 / step[i] : 0;
		}
		float *to = (float *)p->data + panel * SLC_PANEL * words;
		for (int64_t k = 0; k < words; k += 16) {
			const int64_t n = words - k < 16 ? words - k : 16;
			for (int half = 0; half < SLC_PANEL; half += 16) {
				__m512 lines[16];
				for (int j = 0; j < 16; j++) {
					const int i = half + j;
					__m256i codes[2];
					for (int g = 0; g < 2; g++) {
						const __m512 x = sixteen(&s, i, 2 * k + 16 * g, p->dim);
						const __m512i code = _mm512_cvtps_epi32(_mm512_mul_ps(x, _mm512_set1_ps(inverse[i])));
						codes[g] = _mm512_cvtsepi32_epi16(_mm512_max_epi32(code, _mm512_set1_epi32(-32767)));
						const __m512 coded = _mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(codes[g]));
						const __m512 d = _mm512_fnmadd_ps(coded, _mm512_set1_ps(step[i]), x);
						squares[i] = _mm512_fmadd_ps(x, x, squares[i]);
						rest[i] = _mm512_fmadd_ps(d, d, rest[i]);
					}
					lines[j] = _mm512_castsi512_ps(_mm512_inserti64x4(_mm512_castsi256_si512(codes[0]), codes[1], 1));
				}
				transpose(lines);
				for (int64_t w = 0; w < n; w++) _mm512_store_ps(to + (k + w) * SLC_PANEL + half, lines[w]);
			}
		}
		finish(p, &s, panel, squares, rest, low);
		exact_terms(p, &s, panel);
	}
	// The float32 error, in addition to that of the codes.
	p->residual += 0x1p-22 * p->norm + 0x1p-74 * (double)p->dim;
}
