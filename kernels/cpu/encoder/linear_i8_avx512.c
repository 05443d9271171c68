//go:build amd64

#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")
#define ISA avx512
#define BLOCK_R 6
#define BLOCK_V 1
#define RUN 2
#include "lanes_avx512.h"
// As with AVX2. A panel has the same number of outputs, and a slice the same number of inputs: the same bits.
#define WORD(x) ((ivec)_mm512_set1_epi32(x))
#define WORDS(p) ((ivec)_mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(p))))
#define START(p) ((ivec)_mm512_setzero_si512())
#define DOT(s, x, y) add_products(s, x, y)
#define CODES(p, v) _mm256_storeu_si256((__m256i *)(p), _mm512_cvtepi32_epi16((__m512i)(v)))

static inline __attribute__((always_inline)) ivec add_products(ivec s, ivec x, ivec y) {
	ivec products;
	__asm__("vpmaddwd %3, %2, %0\n\tvpaddd %0, %1, %1" : "=&v"(products), "+v"(s) : "v"(x), "v"(y));
	return s;
}

#include "linear_i8_body.h"
