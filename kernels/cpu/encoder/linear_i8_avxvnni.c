//go:build amd64

#pragma GCC target("avx2,fma,avxvnni")
#define ISA avxvnni
#define BLOCK_R 6
#define BLOCK_V 2
#define RUN 4
#include "lanes_avx2.h"
#include "inline.h"
// Codes are unsigned for vpdpbusd: the value plus 128.
#define WORD(x) ((ivec)_mm256_set1_epi32(x))
#define WORDS(p) ((ivec)_mm256_loadu_si256((const __m256i *)(p)))
#define START(p) WORDS(p)
#define DOT(s, x, y) ((ivec)_mm256_dpbusd_avx_epi32((__m256i)(s), (__m256i)(x), (__m256i)(y)))
#define CODES(p, v) store_bytes(p, v)

static inline __attribute__((always_inline)) void store_bytes(void *p, ivec v) {
	const __m256i lowest = _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, //
	                                        -1, -1, -1, -1, 0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1);
	const __m256i halves = _mm256_shuffle_epi8((__m256i)v, lowest);
	const __m128i bytes = _mm_or_si128(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
	_mm_storel_epi64((__m128i *)p, _mm_xor_si128(bytes, _mm_set1_epi8((char)128)));
}

#include "linear_i8_body.h"
