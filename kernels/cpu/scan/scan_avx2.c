//go:build amd64

// AVX2: products of a nibble and a signed byte in pairs; eight pairs of at most 2·15·127 fit 16 bits.
#pragma GCC target("avx2,fma")
#include "scan_avx2.h"
#define NAME slc_scan_i8_avx2

INLINE __m256i add_low(__m256i sum, __m256i x, __m256i q) {
	return _mm256_add_epi16(sum, _mm256_maddubs_epi16(_mm256_and_si256(x, _mm256_set1_epi8(15)), q));
}

INLINE __m256i add_high(__m256i sum, __m256i x, __m256i q) { return add_low(sum, _mm256_srli_epi16(x, 4), q); }

INLINE __m256i total(__m256i low, __m256i high) {
	const __m256i ones = _mm256_set1_epi16(1);
	return _mm256_add_epi32(_mm256_madd_epi16(low, ones), _mm256_madd_epi16(high, ones));
}

#include "scan_body.h"
