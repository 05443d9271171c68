// Vectors of floats for the baseline of the compiler's target (SSE2, NEON).
#include <stdint.h>
#include <string.h>
#include "inline.h"
#define W 4
typedef float vec __attribute__((vector_size(16)));
typedef int ivec __attribute__((vector_size(16)));
typedef float unaligned __attribute__((vector_size(16), aligned(4)));
#define LOAD(p) ((vec) * (const unaligned *)(p))
#define STORE(p, v) (*(unaligned *)(p) = (v))
#define SET1(x) ((vec){x, x, x, x})
#define MAX(a, b) ((vec)(((ivec)(a) & ((a) > (b))) | ((ivec)(b) & ~((a) > (b)))))
#define MIN(a, b) ((vec)(((ivec)(a) & ((a) < (b))) | ((ivec)(b) & ~((a) < (b)))))
#define LOADN(p, n) load_some(p, n)
#define STOREN(p, v, n) store_some(p, v, n)
#if defined(__aarch64__)
#include <arm_neon.h>
#define MADD(s, x, y) ((vec)vfmaq_f32((float32x4_t)(s), (float32x4_t)(x), (float32x4_t)(y)))
#else
#define MADD(s, x, y) ((s) + (x) * (y))
#endif

INLINE vec load_some(const float *p, const int64_t n) {
	vec v = {0};
	memcpy(&v, p, n * sizeof *p);
	return v;
}

INLINE void store_some(float *p, vec v, int64_t n) { memcpy(p, &v, n * sizeof *p); }
