//go:build amd64

// AVX-512F/DQ/VL: eight doubles at a time; 4 x 4 pairs fill 16 of 32 registers.
#pragma GCC target("avx512f,avx512dq,avx512vl,avx2,fma")
#include <immintrin.h>
#define ISA avx512
#define WIDTH 8
#define BLOCK_A 4
#define BLOCK_B 4
#define WIDEN(p) ((vec)_mm512_cvtps_pd(_mm256_loadu_ps(p)))
#define MADD(s, x, y) ((vec)_mm512_fmadd_pd(x, y, s))
#include "scores_body.h"
