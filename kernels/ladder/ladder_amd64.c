//go:build amd64

#pragma GCC target("avx512f,avx512dq,avx512vl,avx512bw,avx512vnni,avx2,fma,popcnt")
#include <immintrin.h>
#include "ladder.h"

static void count(const ladder_pairs *p, float v) {
	for (int b = 0; b < LADDER_LIMITS; b++) p->below[b] += v < p->limits[b];
}

void ladder_dot(const ladder_pairs *p) {
	for (int64_t i = 0; i < p->n; i++)
		for (int64_t j = 0; j < p->m; j++) {
			float sum = 0;
			for (int64_t k = 0; k < p->dim; k++) sum += p->rows[i * p->dim + k] * p->columns[j * p->dim + k];
			count(p, sum);
		}
}

void ladder_lanes(const ladder_pairs *p) {
	for (int64_t i = 0; i < p->n; i++)
		for (int64_t j = 0; j < p->m; j++) {
			__m512 sum = _mm512_setzero_ps();
			for (int64_t k = 0; k < p->dim; k += 16)
				sum = _mm512_fmadd_ps(_mm512_loadu_ps(p->rows + i * p->dim + k),
					_mm512_loadu_ps(p->columns + j * p->dim + k), sum);
			count(p, _mm512_reduce_add_ps(sum));
		}
}

// multiply computes 8 rows of a tile of 32 x 32.
static inline void multiply(const float *a, const float *b, int64_t dim, float *tile) {
	__m512 s[8][2];
#pragma GCC unroll 8
	for (int i = 0; i < 8; i++) s[i][0] = s[i][1] = _mm512_setzero_ps();
	for (int64_t k = 0; k < dim; k++, a += LADDER_TILE, b += LADDER_TILE) {
		const __m512 y0 = _mm512_loadu_ps(b), y1 = _mm512_loadu_ps(b + 16);
#pragma GCC unroll 8
		for (int i = 0; i < 8; i++) {
			const __m512 x = _mm512_set1_ps(a[i]);
			s[i][0] = _mm512_fmadd_ps(x, y0, s[i][0]), s[i][1] = _mm512_fmadd_ps(x, y1, s[i][1]);
		}
	}
#pragma GCC unroll 8
	for (int i = 0; i < 8; i++) {
		_mm512_storeu_ps(tile + i * LADDER_TILE, s[i][0]);
		_mm512_storeu_ps(tile + i * LADDER_TILE + 16, s[i][1]);
	}
}

static void count_masks(const ladder_pairs *p, const float *tile) {
	for (int i = 0; i < LADDER_TILE * LADDER_TILE; i += 16) {
		const __m512 v = _mm512_loadu_ps(tile + i);
#pragma GCC unroll 5
		for (int b = 0; b < LADDER_LIMITS; b++)
			p->below[b] += __builtin_popcount(_mm512_cmp_ps_mask(v, _mm512_set1_ps(p->limits[b]), _CMP_LT_OQ));
	}
}

static void count_signs(const ladder_pairs *p, const float *tile) {
	__m512i n[LADDER_LIMITS];
#pragma GCC unroll 5
	for (int b = 0; b < LADDER_LIMITS; b++) n[b] = _mm512_setzero_si512();
	for (int i = 0; i < LADDER_TILE * LADDER_TILE; i += 16) {
		const __m512 v = _mm512_loadu_ps(tile + i);
#pragma GCC unroll 5
		for (int b = 0; b < LADDER_LIMITS; b++) {
			const __m512i d = _mm512_castps_si512(_mm512_sub_ps(v, _mm512_set1_ps(p->limits[b])));
			n[b] = _mm512_add_epi32(n[b], _mm512_srli_epi32(d, 31));
		}
	}
#pragma GCC unroll 5
	for (int b = 0; b < LADDER_LIMITS; b++) p->below[b] += _mm512_reduce_add_epi32(n[b]);
}

static inline void tiles(const ladder_pairs *p, void (*count)(const ladder_pairs *, const float *)) {
	float tile[LADDER_TILE * LADDER_TILE] __attribute__((aligned(64)));
	for (int64_t j = 0; j < p->m; j += LADDER_TILE)
		for (int64_t i = 0; i < p->n; i += LADDER_TILE) {
			for (int r = 0; r < LADDER_TILE; r += 8)
				multiply(p->rows + i * p->dim + r, p->columns + j * p->dim, p->dim, tile + r * LADDER_TILE);
			count(p, tile);
		}
}

void ladder_panels(const ladder_pairs *p) { tiles(p, count_masks); }

void ladder_signs(const ladder_pairs *p) { tiles(p, count_signs); }

#define ROUND(x) x(0) x(1) x(2) x(3) x(4) x(5) x(6) x(7) x(8) x(9) x(10) x(11) x(12) x(13) x(14) x(15)
#define F32(i) __asm__ volatile("vfmadd231ps %1, %1, %0" : "+v"(s[i]) : "v"(x));
#define I8(i) __asm__ volatile("vpdpbusd %1, %1, %0" : "+v"(s[i]) : "v"(x));

double ladder_peak_f32(int64_t n) {
	__m512 x = _mm512_setzero_ps(), s[16];
#pragma GCC unroll 16
	for (int i = 0; i < 16; i++) s[i] = x;
	for (int64_t t = 0; t < n; t++) { ROUND(F32) }
	return 16.0 * 32 * (double)n;
}

double ladder_peak_i8(int64_t n) {
	__m512i x = _mm512_setzero_si512(), s[16];
#pragma GCC unroll 16
	for (int i = 0; i < 16; i++) s[i] = x;
	for (int64_t t = 0; t < n; t++) { ROUND(I8) }
	return 16.0 * 128 * (double)n;
}
