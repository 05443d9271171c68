//go:build amd64 && !noamx

#pragma GCC target("avx2,fma")
#define ISA amx_emulated
#include "lanes_avx2.h"
#include "tile_ops_emulated.h"
#define LOOKUP(table, i) ((vec)_mm256_i32gather_ps(table, (__m256i)((ivec)(i) & 15), 4))
#define NEAREST(v) ((ivec)_mm256_cvtps_epi32(v))
#define LARGER(a, b) ((ivec)_mm256_max_epi32((__m256i)(a), (__m256i)(b)))
#define BYTES(p, v, at) store_bytes(p, v, at)

INLINE void store_bytes(uint8_t *p, const ivec *v, const int at) {
	for (int i = 0; i < 64; i++) p[i] = (uint8_t)(v[i / W][i % W] >> (8 * at));
}

#include "linear_amx_body.h"
