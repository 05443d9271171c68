//go:build amd64 && !noamx

#pragma GCC target("avx2,fma")
#define ISA amx_emulated
#include "lanes_avx2.h"
#include "tile_ops_emulated.h"
#include "bf16_avx2.h"
#define LOOKUP(table, i) ((vec)_mm256_i32gather_ps(table, (__m256i)((ivec)(i) & 15), 4))

#include "linear_bf16_body.h"
