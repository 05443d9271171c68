// The vector operations of tiles_body.h for AVX2.
#include <immintrin.h>
#define W 8
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
