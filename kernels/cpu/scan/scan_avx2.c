//go:build amd64

// AVX2: products of a nibble and a signed byte in pairs; eight pairs of at most 2·15·127 fit 16 bits.
#pragma GCC target("avx2,fma")
#include "scan_avx2.h"
#define NAME slc_scan_i8_avx2

INLINE void section_dot(const uint8_t *b, const int8_t *q, int32_t *out) {
	const __m256i nibble = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1), zero = _mm256_setzero_si256();
	__m256i low[2] = {zero, zero}, high[2] = {zero, zero}, sum[2];
#pragma GCC unroll 8
	for (int g = 0; g < 8; g++) {
		const __m256i q0 = four(q + 4 * g), q1 = four(q + 32 + 4 * g);
#pragma GCC unroll 2
		for (int h = 0; h < 2; h++) {
			__m256i x = _mm256_loadu_si256((const __m256i *)(b + 64 * g + 32 * h));
			low[h] = _mm256_add_epi16(low[h], _mm256_maddubs_epi16(_mm256_and_si256(x, nibble), q0));
			high[h] = _mm256_add_epi16(high[h],
				_mm256_maddubs_epi16(_mm256_and_si256(_mm256_srli_epi16(x, 4), nibble), q1));
		}
	}
	for (int h = 0; h < 2; h++)
		sum[h] = _mm256_add_epi32(_mm256_madd_epi16(low[h], ones), _mm256_madd_epi16(high[h], ones));
	memcpy(out, sum, sizeof sum);
}

#include "scan_body.h"
