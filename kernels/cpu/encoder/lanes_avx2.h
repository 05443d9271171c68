// Vectors of floats for AVX2.
#include <immintrin.h>
#define W 8
typedef float vec __attribute__((vector_size(32)));
typedef int ivec __attribute__((vector_size(32)));
#define LOAD(p) ((vec)_mm256_loadu_ps(p))
#define STORE(p, v) _mm256_storeu_ps(p, v)
#define FIRST(n) _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
#define LOADN(p, n) ((vec)_mm256_maskload_ps(p, FIRST(n)))
#define STOREN(p, v, n) _mm256_maskstore_ps(p, FIRST(n), v)
#define SET1(x) ((vec)_mm256_set1_ps(x))
#define MADD(s, x, y) ((vec)_mm256_fmadd_ps(x, y, s))
#define MAX(a, b) ((vec)_mm256_max_ps(a, b))
#define MIN(a, b) ((vec)_mm256_min_ps(a, b))
