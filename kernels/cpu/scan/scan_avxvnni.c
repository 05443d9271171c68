//go:build amd64

// AVX-VNNI: four products of a nibble and a signed byte per lane and instruction.
#pragma GCC target("avx2,fma,avxvnni")
#include "scan_avx2.h"
#define NAME slc_scan_i8_avxvnni

INLINE void section_dot(const uint8_t *b, const int8_t *q, int32_t *out) {
	const __m256i lower = _mm256_set1_epi8(15), upper = _mm256_set1_epi8((char)0xf0), zero = _mm256_setzero_si256();
	__m256i low[2] = {zero, zero}, high[2] = {zero, zero}, sum[2]; // high ones are 16 times too large
#pragma GCC unroll 8
	for (int g = 0; g < 8; g++) {
		const __m256i q0 = four(q + 4 * g), q1 = four(q + 32 + 4 * g);
#pragma GCC unroll 2
		for (int h = 0; h < 2; h++) {
			__m256i x = _mm256_loadu_si256((const __m256i *)(b + 64 * g + 32 * h));
			low[h] = _mm256_dpbusd_avx_epi32(low[h], _mm256_and_si256(x, lower), q0);
			high[h] = _mm256_dpbusd_avx_epi32(high[h], _mm256_and_si256(x, upper), q1);
		}
	}
	for (int h = 0; h < 2; h++) sum[h] = _mm256_add_epi32(low[h], _mm256_srai_epi32(high[h], 4));
	memcpy(out, sum, sizeof sum);
}

#include "scan_body.h"
