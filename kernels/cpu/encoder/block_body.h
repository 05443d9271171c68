// The register block of float products that the encoder's kernels share: rows of a times a panel of PANEL columns. A
// file that includes it also includes lanes_<isa>.h and defines BLOCK_R, the maximum number of rows, and BLOCK_V, the
// vectors of a panel.
#include "lanes_body.h"

enum { PANEL = BLOCK_V * W };

// multiply writes the products of n steps to the rows of sums, PANEL values each: rows of a are a_stride apart, steps
// of b PANEL values. Meanwhile it prefetches as many values as it reads of b from `next` on, unless that is NULL. rows
// and fetches (next is not NULL) are constants at each call.
INLINE void multiply(float *sums, const float *a, int64_t a_stride, const float *b, int64_t n, const float *next,
		const int fetches, const int rows) {
	vec s[BLOCK_R][BLOCK_V];
#pragma GCC unroll 16
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
		for (int j = 0; j < BLOCK_V; j++) s[i][j] = SET1(0.f);
#pragma GCC unroll 2
	for (int64_t k = 0; k < n; k++) {
		vec y[BLOCK_V];
#pragma GCC unroll 4
		for (int j = 0; j < PANEL; j += 16)
			if (fetches) __builtin_prefetch(next + k * PANEL + j);
#pragma GCC unroll 4
		for (int j = 0; j < BLOCK_V; j++) y[j] = LOAD(b + k * PANEL + j * W);
#pragma GCC unroll 16
		for (int i = 0; i < rows; i++) {
			vec x = SET1(a[i * a_stride + k]);
#pragma GCC unroll 4
			for (int j = 0; j < BLOCK_V; j++) s[i][j] = MADD(s[i][j], x, y[j]);
		}
	}
#pragma GCC unroll 16
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
		for (int j = 0; j < BLOCK_V; j++) STORE(sums + i * PANEL + j * W, s[i][j]);
}

// multiply_rows is multiply for up to BLOCK_R rows. A row's sums do not depend on the others.
static __attribute__((noinline)) void multiply_rows(float *sums, const float *a, int64_t a_stride, const float *b,
		int64_t n, const float *next, int64_t rows) {
#define ROWS(r) \
	case r: \
		if (next) multiply(sums, a, a_stride, b, n, next, 1, r < BLOCK_R ? r : BLOCK_R); \
		else multiply(sums, a, a_stride, b, n, next, 0, r < BLOCK_R ? r : BLOCK_R); \
		break;
	switch (rows) {
		ROWS(1) ROWS(2) ROWS(3) ROWS(4)
#if BLOCK_R > 4
		ROWS(5) ROWS(6)
#endif
#if BLOCK_R > 6
		ROWS(7) ROWS(8) ROWS(9) ROWS(10) ROWS(11) ROWS(12)
#endif
	}
#undef ROWS
}
