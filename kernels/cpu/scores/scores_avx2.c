//go:build amd64

// AVX2 + FMA: four doubles at a time; 2 x 2 pairs fill 8 of 16 registers.
#pragma GCC target("avx2,fma")
#include <immintrin.h>
#define ISA avx2
#define WIDTH 4
#define BLOCK_A 2
#define BLOCK_B 2
#define WIDEN(p) ((vec)_mm256_cvtps_pd(_mm_loadu_ps(p)))
#define MADD(s, x, y) ((vec)_mm256_fmadd_pd(x, y, s))
#include "scores_body.h"
