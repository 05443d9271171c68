// Vectors of floats for AVX-512.
#include <immintrin.h>
#define W 16
typedef float vec __attribute__((vector_size(64)));
typedef int ivec __attribute__((vector_size(64)));
#define LOAD(p) ((vec)_mm512_loadu_ps(p))
#define STORE(p, v) _mm512_storeu_ps(p, v)
#define FIRST(n) ((__mmask16)((1u << (n)) - 1))
#define LOADN(p, n) ((vec)_mm512_maskz_loadu_ps(FIRST(n), p))
#define STOREN(p, v, n) _mm512_mask_storeu_ps(p, FIRST(n), v)
#define SET1(x) ((vec)_mm512_set1_ps(x))
#define MADD(s, x, y) ((vec)_mm512_fmadd_ps(x, y, s))
#define MAX(a, b) ((vec)_mm512_max_ps(a, b))
#define MIN(a, b) ((vec)_mm512_min_ps(a, b))
