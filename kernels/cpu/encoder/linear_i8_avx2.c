//go:build amd64

#pragma GCC target("avx2,fma")
#define ISA avx2
#define BLOCK_R 6
#define BLOCK_V 2
#define RUN 2
#include "lanes_avx2.h"
#include "inline.h"
// vpmaddwd multiplies pairs of 16 bits in one instruction; vpmaddubsw needs one unsigned operand, and a second
// instruction for its pairs. Additions are free beside it on some processors.
#define WORD(x) ((ivec)_mm256_set1_epi32(x))
#define WORDS(p) ((ivec)_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(p))))
#define START(p) ((ivec)_mm256_setzero_si256())
#define DOT(s, x, y) add_products(s, x, y)
#define CODES(p, v) store_words(p, v)

// Otherwise gcc multiplies all pairs of a group before it adds them, and runs out of registers.
static inline __attribute__((always_inline)) ivec add_products(ivec s, ivec x, ivec y) {
	ivec products;
	__asm__("vpmaddwd %3, %2, %0\n\tvpaddd %0, %1, %1" : "=&x"(products), "+x"(s) : "x"(x), "x"(y));
	return s;
}

static inline __attribute__((always_inline)) void store_words(void *p, ivec v) {
	const __m256i even = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1, 0, 1, 4, 5, 8, 9,
	                                      12, 13, -1, -1, -1, -1, -1, -1, -1, -1);
	const __m256i words = _mm256_permute4x64_epi64(_mm256_shuffle_epi8((__m256i)v, even), 0x08);
	_mm_storeu_si128((__m128i *)p, _mm256_castsi256_si128(words));
}

#include "linear_i8_body.h"
