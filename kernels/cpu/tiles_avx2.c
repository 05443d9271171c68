//go:build amd64

// AVX2 with FMA: 2 x 8 columns x 6 rows fill 15 of 16 registers, four times in a tile; two blocks of 4 rows remain.
#pragma GCC target("avx2,fma,bmi,popcnt")
#include <immintrin.h>
#define ISA avx2
#define W 8
#define BLOCK_V 2
#define BLOCK_R 6
#define BLOCK_ROWS 24
#define BLOCK_REST 4
typedef float vec __attribute__((vector_size(32)));
typedef int ivec __attribute__((vector_size(32)));
typedef ivec mask;
#define LOAD(p) ((vec)_mm256_loadu_ps(p))
#define STORE(p, v) _mm256_storeu_ps(p, v)
#define STREAM(p, v) _mm256_stream_ps(p, v)
#define SET1(x) ((vec)_mm256_set1_ps(x))
#define MADD(s, x, y) ((vec)_mm256_fmadd_ps(x, y, s))
#define MAX(a, b) ((vec)_mm256_max_ps(a, b))
#define SQRT(a) ((vec)_mm256_sqrt_ps(a))
#define GE(a, b) ((a) >= (b))
#define LE_AND(m, a, b) ((m) & ((a) <= (b)))
#define OR(m, n) ((m) | (n))
#define BITS(m) ((uint32_t)_mm256_movemask_ps((vec)(m)))
#define COUNT(n, m) ((n) -= (m))
#define WHERE(m, a) ((vec)((m) & (ivec)(a)))
#include "tiles_f32_body.h"
