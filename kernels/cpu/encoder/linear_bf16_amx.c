//go:build amd64 && !noamx

#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")
#define ISA amx
#include "lanes_avx512.h"
#include "tile_ops_amx.h"
#include "bf16_avx512.h"
#define LOOKUP(table, i) ((vec)_mm512_permutexvar_ps((__m512i)(i), _mm512_load_ps(table)))
#include "linear_bf16_body.h"
