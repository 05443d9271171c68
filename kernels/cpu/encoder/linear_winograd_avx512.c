//go:build amd64

#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")
#define ISA avx512
#define BLOCK_R 8
#define BLOCK_V 3
#define WINOGRAD(j, pair) ((j) < 2)
#define SHARES 3
#define INPUTS 2
#include "lanes_avx512.h"
#include "inline.h"
#include "linear.h"

// Inputs are memory operands: separate broadcast loads take issue slots of the arithmetic on AMD. (Inline assembly,
// since gcc hoists such loads of values that are used more than once.)
#define ADD(t, y, x) __asm__ volatile("vaddps %2%{1to16%}, %1, %0" : "=v"(t) : "v"(y), "m"(x))
#define MULTIPLY_LANES(s, y, x) __asm__ volatile("vfmadd231ps %2%{1to16%}, %1, %0" : "+v"(s) : "v"(y), "m"(x))
#define MULTIPLY(s, x, y) __asm__ volatile("vfmadd231ps %1, %2, %0" : "+v"(s) : "v"(x), "v"(y))

INLINE void multiply_step(vec s[][BLOCK_V], const int rows, const float *b, const float *x) {
	vec y[2][BLOCK_V];
#pragma GCC unroll 4
	for (int j = 0; j < BLOCK_V; j++) y[0][j] = LOAD(b + j * W), y[1][j] = LOAD(b + (BLOCK_V + j) * W);
#pragma GCC unroll 8
	for (int i = 0; i < rows; i++, x += SLC_WINOGRAD_ROW) {
#pragma GCC unroll 2
		for (int j = 0; j < 2; j++) {
			vec t, u;
			ADD(t, y[0][j], x[1]);
			ADD(u, y[1][j], x[0]);
			MULTIPLY(s[i][j], t, u);
		}
		MULTIPLY_LANES(s[i][2], y[0][2], x[0]);
		MULTIPLY_LANES(s[i][2], y[1][2], x[1]);
	}
}
#define MULTIPLY_STEP multiply_step
#include "linear_winograd_body.h"
