//go:build amd64 && !noamx

#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx2,fma")
#define ISA amx
#include "lanes_avx512.h"
#include "tile_ops_amx.h"
#define LOOKUP(table, i) ((vec)_mm512_permutexvar_ps((__m512i)(i), _mm512_load_ps(table)))
#define NEAREST(v) ((ivec)_mm512_cvtps_epi32(v))
#define LARGER(a, b) ((ivec)_mm512_max_epi32((__m512i)(a), (__m512i)(b)))
#define BYTES(p, v, at) store_bytes(p, v, at)

// store_bytes takes the bytes of two vectors at a time: the lower 64 of both, in fours, hold those at one place.
INLINE void store_bytes(uint8_t *p, const ivec *v, const int at) {
	const __m512i fours = _mm512_set_epi8(124, 120, 116, 112, 108, 104, 100, 96, 92, 88, 84, 80, 76, 72, 68, 64, 60, 56,
		52, 48, 44, 40, 36, 32, 28, 24, 20, 16, 12, 8, 4, 0, 124, 120, 116, 112, 108, 104, 100, 96, 92, 88, 84, 80, 76,
		72, 68, 64, 60, 56, 52, 48, 44, 40, 36, 32, 28, 24, 20, 16, 12, 8, 4, 0);
	const __m512i places = _mm512_add_epi8(fours, _mm512_set1_epi8((char)at));
	const __m512i low = _mm512_permutex2var_epi8((__m512i)v[0], places, (__m512i)v[1]);
	const __m512i high = _mm512_permutex2var_epi8((__m512i)v[2], places, (__m512i)v[3]);
	_mm512_storeu_si512(p, _mm512_mask_blend_epi64(0xf0, low, high));
}

#include "linear_amx_body.h"
