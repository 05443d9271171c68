//go:build amd64

#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")
#define ISA avx512vnni
#define BLOCK_R 6
#define BLOCK_V 2
#define RUN 4
#include "lanes_avx512.h"
// Codes are unsigned for vpdpbusd: the value plus 128.
#define WORD(x) ((ivec)_mm512_set1_epi32(x))
#define WORDS(p) ((ivec)_mm512_loadu_si512(p))
#define START(p) WORDS(p)
#define DOT(s, x, y) ((ivec)_mm512_dpbusd_epi32((__m512i)(s), (__m512i)(x), (__m512i)(y)))
#define CODES(p, v) \
	_mm_storeu_si128((__m128i *)(p), _mm_xor_si128(_mm512_cvtepi32_epi8((__m512i)(v)), _mm_set1_epi8((char)128)))
#include "linear_i8_body.h"
