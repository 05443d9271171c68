//go:build amd64

// AVX-VNNI: four products of a nibble and a signed byte per lane and instruction. High nibbles stay in their place, so
// that their sums are 16 times too large.
#pragma GCC target("avx2,fma,avxvnni")
#include "scan_avx2.h"
#define NAME slc_scan_i8_avxvnni

INLINE __m256i add_low(__m256i sum, __m256i x, __m256i q) {
	return _mm256_dpbusd_avx_epi32(sum, _mm256_and_si256(x, _mm256_set1_epi8(15)), q);
}

INLINE __m256i add_high(__m256i sum, __m256i x, __m256i q) {
	return _mm256_dpbusd_avx_epi32(sum, _mm256_and_si256(x, _mm256_set1_epi8((char)0xf0)), q);
}

INLINE __m256i total(__m256i low, __m256i high) { return _mm256_add_epi32(low, _mm256_srai_epi32(high, 4)); }

#include "scan_body.h"
