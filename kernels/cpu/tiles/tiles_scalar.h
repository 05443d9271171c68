// The vector operations of tiles_body.h for the compiler's baseline: four floats at a time (SSE2, NEON).
#define W 4
typedef float vec __attribute__((vector_size(16)));
typedef int ivec __attribute__((vector_size(16)));
typedef ivec mask;
typedef float unaligned __attribute__((vector_size(16), aligned(4)));
#define LOAD(p) ((vec) * (const unaligned *)(p))
#define STORE(p, v) (*(unaligned *)(p) = (v))
#define STREAM(p, v) STORE(p, v)
#define SET1(x) ((vec){x, x, x, x})
#define GE(a, b) ((a) >= (b))
#define LE_AND(m, a, b) ((m) & ((a) <= (b)))
#define OR(m, n) ((m) | (n))
#define COUNT(n, m) ((n) -= (m))
#define WHERE(m, a) ((vec)((m) & (ivec)(a)))
#if defined(__x86_64__)
#include <emmintrin.h>
#define MADD(s, x, y) ((s) + (x) * (y))
#define MAX(a, b) ((vec)_mm_max_ps(a, b))
#define SQRT(a) ((vec)_mm_sqrt_ps(a))
#define BITS(m) ((uint32_t)_mm_movemask_ps((vec)(m)))
#else
#include <arm_neon.h>
#define MADD(s, x, y) ((vec)vfmaq_f32((float32x4_t)(s), (float32x4_t)(x), (float32x4_t)(y)))
#define MAX(a, b) ((vec)vmaxnmq_f32((float32x4_t)(a), (float32x4_t)(b)))
#define SQRT(a) ((vec)vsqrtq_f32((float32x4_t)(a)))
#define BITS(m) vaddvq_u32(vandq_u32((uint32x4_t)(m), (uint32x4_t){1, 2, 4, 8}))
#endif
