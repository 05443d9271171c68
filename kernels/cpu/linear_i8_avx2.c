//go:build amd64

#pragma GCC target("avx2,fma")
#define ISA avx2
#define BLOCK_R 2
#define BLOCK_V 2
#include "lanes_avx2.h"
#include "inline.h"
#define WORD(x) ((ivec)_mm256_set1_epi32(x))
#define WORDS(p) ((ivec)_mm256_loadu_si256((const __m256i *)(p)))
#define START(p) ((ivec)_mm256_setzero_si256())
#define DOT(s, x, y) add_products(s, x, y)
#define CODES(p, v) store_bytes(p, v)

// vpmaddubsw wants one side unsigned, and adds pairs in 16 bits: |x| ≤ 127, so nothing overflows.
static inline __attribute__((always_inline)) ivec add_products(ivec s, ivec x, ivec y) {
	__m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8((__m256i)x), _mm256_sign_epi8((__m256i)y, (__m256i)x));
	return s + (ivec)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

static inline __attribute__((always_inline)) void store_bytes(void *p, ivec v) {
	const __m256i low = _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 4, 8, 12, -1,
	                                     -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
	__m256i bytes = _mm256_shuffle_epi8((__m256i)v, low);
	bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 0, 0, 0, 0, 0, 0));
	_mm_storel_epi64((__m128i *)p, _mm256_castsi256_si128(bytes));
}

#include "linear_i8_body.h"
