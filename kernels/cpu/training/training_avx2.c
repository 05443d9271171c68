//go:build amd64

// AVX2 + FMA: eight floats at a time.
#pragma GCC target("avx2,fma")
#include <immintrin.h>
#define ISA avx2
#define WIDTH 8
#define MADD(s, x, y) ((vec)_mm256_fmadd_ps(x, y, s))
#define ROOT(x) ((vec)_mm256_sqrt_ps(x))
#include "training_body.h"
