//go:build amd64

// AVX-512: sixteen floats at a time.
#pragma GCC target("avx512f,avx512dq,avx512vl,avx2,fma")
#include <immintrin.h>
#define ISA avx512
#define WIDTH 16
#define MADD(s, x, y) ((vec)_mm512_fmadd_ps(x, y, s))
#define ROOT(x) ((vec)_mm512_sqrt_ps(x))
#include "training_body.h"
