//go:build amd64

// AVX2: f32 and i16 panels.
#pragma GCC target("avx2,fma")
#include <immintrin.h>
#include "pack_pieces.h"
#include "pack_codes.h"

enum { LINES = 8 }; // vectors of a panel that are packed together: as many as a register has words

// eight returns up to 8 elements of a row from k on, scaled in float64 and rounded once, padded with zeros.
INLINE __m256 eight(source s, int64_t k, int64_t dim) {
	static const int32_t lanes[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
	if (!s.x || k >= dim) return _mm256_setzero_ps();
	const __m256 x = dim - k >= 8 ? _mm256_loadu_ps(s.x + k)
		: _mm256_maskload_ps(s.x + k, _mm256_loadu_si256((const __m256i *)(lanes + 8 - (dim - k))));
	const __m256d scale = _mm256_set1_pd(s.scale);
	const __m128 low = _mm256_cvtpd_ps(_mm256_mul_pd(_mm256_cvtps_pd(_mm256_castps256_ps128(x)), scale));
	const __m128 high = _mm256_cvtpd_ps(_mm256_mul_pd(_mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)), scale));
	return _mm256_set_m128(high, low);
}

INLINE float sum_of_eight(__m256 v) {
	__m128 x = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
	x = _mm_add_ps(x, _mm_movehl_ps(x, x));
	return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}

INLINE float max_of_eight(__m256 v) {
	__m128 x = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
	x = _mm_max_ps(x, _mm_movehl_ps(x, x));
	return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}

// store_across writes the first n columns of 8 lines of 8 words, as parts of rows of a panel.
INLINE void store_across(float *to, const __m256 r[LINES], int64_t n) {
	__m256 t[LINES];
	for (int i = 0; i < LINES; i += 4) {
		const __m256 a = _mm256_unpacklo_ps(r[i], r[i + 1]), b = _mm256_unpackhi_ps(r[i], r[i + 1]);
		const __m256 c = _mm256_unpacklo_ps(r[i + 2], r[i + 3]), d = _mm256_unpackhi_ps(r[i + 2], r[i + 3]);
		t[i] = _mm256_shuffle_ps(a, c, 0x44), t[i + 1] = _mm256_shuffle_ps(a, c, 0xee);
		t[i + 2] = _mm256_shuffle_ps(b, d, 0x44), t[i + 3] = _mm256_shuffle_ps(b, d, 0xee);
	}
	for (int64_t j = 0; j < LINES && j < n; j++) {
		const __m256 a = t[j % 4], b = t[j % 4 + 4];
		_mm256_storeu_ps(to + j * SLC_PANEL,
			j < 4 ? _mm256_permute2f128_ps(a, b, 0x20) : _mm256_permute2f128_ps(a, b, 0x31));
	}
}

void slc_pack_f32_avx2(slc_packing *p) {
	for (int64_t panel = p->from; panel < p->to; panel++)
		for (int first = 0; first < SLC_PANEL; first += LINES) {
			float *to = (float *)p->data + panel * SLC_PANEL * p->dim + first;
			source from[LINES];
			__m256 squares[LINES];
			for (int i = 0; i < LINES; i++)
				from[i] = source_of(p, panel, first + i), squares[i] = _mm256_setzero_ps();
			for (int64_t k = 0; k < p->dim; k += 8) {
				__m256 lines[LINES];
				for (int i = 0; i < LINES; i++) {
					lines[i] = eight(from[i], k, p->dim);
					squares[i] = _mm256_fmadd_ps(lines[i], lines[i], squares[i]);
				}
				store_across(to + k * SLC_PANEL, lines, p->dim - k);
			}
			for (int i = 0; i < LINES; i++) {
				widen(&p->norm, p->norms ? from[i].scale > 0 : sum_of_eight(squares[i]));
				exact_term(p, from[i], panel * SLC_PANEL + first + i);
			}
		}
	// A cosine's elements are rounded once; scaling by a power of two is exact except for underflow.
	p->residual = (p->norms ? 0x1p-24 * p->norm * (1 + 0x1p-20) : 0) + 0x1p-149 * (double)p->dim;
}

// step_of computes a vector's step and its squared norm.
INLINE float step_of(source s, int64_t dim, double *norm2) {
	double longest = 0, all = 0;
	__m256 highest = _mm256_setzero_ps();
	for (int64_t k = 0; k < dim;) {
		__m256 squares = _mm256_setzero_ps();
		for (const int64_t end = k + I16_CHAIN; k < dim && k < end; k += 8) {
			const __m256 x = eight(s, k, dim);
			squares = _mm256_fmadd_ps(x, x, squares);
			highest = _mm256_max_ps(highest, _mm256_andnot_ps(_mm256_set1_ps(-0.f), x));
		}
		const double sum = (double)sum_of_eight(squares);
		all += sum;
		longest = sum > longest ? sum : longest;
	}
	*norm2 = all;
	return i16_step(longest, max_of_eight(highest));
}

void slc_pack_i16_avx2(slc_packing *p) {
	const int64_t words = (p->dim + 1) / 2;
	for (int64_t panel = p->from; panel < p->to; panel++)
		for (int first = 0; first < SLC_PANEL; first += LINES) {
			float *to = (float *)p->data + panel * SLC_PANEL * words + first;
			float *step = p->steps + panel * SLC_PANEL + first, inverse[LINES];
			source from[LINES];
			double norm2[LINES];
			__m256 rest[LINES];
			for (int i = 0; i < LINES; i++) {
				from[i] = source_of(p, panel, first + i);
				step[i] = step_of(from[i], p->dim, &norm2[i]);
				inverse[i] = step[i] > 0 ? 1 / step[i] : 0;
				rest[i] = _mm256_setzero_ps();
			}
			for (int64_t k = 0; k < words; k += 8) {
				__m256 lines[LINES];
				for (int i = 0; i < LINES; i++) {
					__m256i code[2];
					for (int g = 0; g < 2; g++) {
						const __m256 x = eight(from[i], 2 * k + 8 * g, p->dim);
						code[g] = _mm256_cvtps_epi32(_mm256_mul_ps(x, _mm256_set1_ps(inverse[i])));
						code[g] = _mm256_min_epi32(code[g], _mm256_set1_epi32(32767));
						code[g] = _mm256_max_epi32(code[g], _mm256_set1_epi32(-32767));
						const __m256 d = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(code[g]), _mm256_set1_ps(step[i]), x);
						rest[i] = _mm256_fmadd_ps(d, d, rest[i]);
					}
					const __m256i halves = _mm256_packs_epi32(code[0], code[1]); // of both, in turns
					lines[i] = _mm256_castsi256_ps(_mm256_permute4x64_epi64(halves, 0xd8));
				}
				store_across(to + k * SLC_PANEL, lines, words - k);
			}
			for (int i = 0; i < LINES; i++) {
				widen(&p->norm, p->norms ? from[i].scale > 0 : norm2[i]);
				widen(&p->residual, sum_of_eight(rest[i]));
				exact_term(p, from[i], panel * SLC_PANEL + first + i);
			}
		}
	// The float32 error, in addition to that of the codes.
	p->residual += 0x1p-22 * p->norm + 0x1p-74 * (double)p->dim;
}
