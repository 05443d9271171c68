// Shared by the AVX2 and the AVX-VNNI variant of the index scan, which define
//   add_low(sum, x, q), add_high(sum, x, q)   sum plus the products of the low or high nibbles of x with q
//   total(low, high)                          the 32-bit sums of 8 lanes
#include <immintrin.h>
#include <string.h>
#include "inline.h"
#include "scan.h"

INLINE __m256i four(const int8_t *q) {
	int32_t x;
	memcpy(&x, q, sizeof x);
	return _mm256_set1_epi32(x);
}

INLINE __m256i add_low(__m256i sum, __m256i x, __m256i q);
INLINE __m256i add_high(__m256i sum, __m256i x, __m256i q);
INLINE __m256i total(__m256i low, __m256i high);

INLINE void section_dot(const uint8_t *b, const int8_t *q, int32_t *out) {
	const __m256i zero = _mm256_setzero_si256();
	__m256i low[2] = {zero, zero}, high[2] = {zero, zero}, sum[2];
#pragma GCC unroll 8
	for (int g = 0; g < 8; g++) {
		const __m256i q0 = four(q + 4 * g), q1 = four(q + 32 + 4 * g);
#pragma GCC unroll 2
		for (int h = 0; h < 2; h++) {
			__m256i x = _mm256_loadu_si256((const __m256i *)(b + 64 * g + 32 * h));
			low[h] = add_low(low[h], x, q0);
			high[h] = add_high(high[h], x, q1);
		}
	}
	for (int h = 0; h < 2; h++) sum[h] = total(low[h], high[h]);
	memcpy(out, sum, sizeof sum);
}

INLINE uint32_t lanes_of(const int32_t *out) {
	__m256i half[2];
	memcpy(half, out, sizeof half);
	return (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(half[0])) |
	       (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(half[1])) << 8;
}
