//go:build amd64

// AVX2 + FMA: four doubles at a time.
#pragma GCC target("avx2,fma")
#include <immintrin.h>
#define ISA avx2
#define WIDTH 4
#define PAIRS 4
#define WIDEN(p) ((vec)_mm256_cvtps_pd(_mm_loadu_ps(p)))
#define MADD(s, x, y) ((vec)_mm256_fmadd_pd(x, y, s))
#include "pairs_body.h"
