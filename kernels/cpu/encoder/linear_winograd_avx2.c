//go:build amd64

#pragma GCC target("avx2,fma")
#define ISA avx2
#define BLOCK_R 5
#define BLOCK_V 2
#define WINOGRAD(j, pair) ((j) == (pair))
#define SHARES 4
#define INPUTS 4
#include "lanes_avx2.h"
#include "inline.h"
#include "linear.h"

#define GET(x, p) __asm__ volatile("vmovups %1, %0" : "=x"(x) : "m"(*(const vec *)(p)))
#define LANES(x, p) __asm__ volatile("vbroadcastss %1, %0" : "=x"(x) : "m"(*(p)))
#define ADD(x, y) __asm__ volatile("vaddps %1, %0, %0" : "+x"(x) : "x"(y))
#define MULTIPLY(s, x, y) __asm__ volatile("vfmadd231ps %1, %2, %0" : "+x"(s) : "x"(x), "x"(y))

// The vectors of a panel alternate: Winograd's products add to a sum once per pair, the others twice in sequence, and
// with few rows the additions would be bound by latency. Inputs are added to in place, so that ten sums, four
// vectors of weights and two inputs fill the 16 registers; gcc keeps them there when they are named.
INLINE void multiply_step(vec s[][BLOCK_V], const int rows, const float *b, const float *x) {
#pragma GCC unroll 2
	for (int h = 0; h < 2; h++, b += 2 * BLOCK_V * W, x += 2) {
		register vec c0 __asm__("ymm10"), c1 __asm__("ymm11"), w0 __asm__("ymm12"), w1 __asm__("ymm13");
		GET(c0, b + (1 - h) * W);
		GET(c1, b + (BLOCK_V + 1 - h) * W);
		GET(w0, b + h * W);
		GET(w1, b + (BLOCK_V + h) * W);
#pragma GCC unroll 8
		for (int i = 0; i < rows; i++) {
			register vec t __asm__("ymm14"), u __asm__("ymm15");
			LANES(t, x + i * SLC_WINOGRAD_ROW);
			LANES(u, x + i * SLC_WINOGRAD_ROW + 1);
			MULTIPLY(s[i][1 - h], t, c0);
			MULTIPLY(s[i][1 - h], u, c1);
			ADD(t, w1);
			ADD(u, w0);
			MULTIPLY(s[i][h], t, u);
		}
	}
}
#define MULTIPLY_STEP multiply_step
#include "linear_winograd_body.h"
