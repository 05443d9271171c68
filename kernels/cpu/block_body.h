// The register block of float products that the encoder's kernels share: rows of a times a panel of PANEL columns.
// A file that includes it has a lanes_<isa>.h and defines BLOCK_R, the most rows, and BLOCK_V, the vectors of a panel.
#include "lanes_body.h"

enum { PANEL = BLOCK_V * W };

// multiply writes to the rows of sums, PANEL values each, the products of n steps: a's row i is a_stride behind the
// one before, b's step k is PANEL values behind the one before. What b has AHEAD steps later is prefetched if streams
// is set: the processor's own prefetching reached 13 of 34 GB/s here. rows and streams are constants at each call.
INLINE void multiply(float *sums, const float *a, int64_t a_stride, const float *b, int64_t n, const int streams,
		const int rows) {
	enum { AHEAD = 4096 / PANEL };
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
			if (streams) __builtin_prefetch(b + (k + AHEAD) * PANEL + j);
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

// multiply_rows is multiply for up to BLOCK_R rows; more count as BLOCK_R. A row's sums do not depend on the others.
static __attribute__((noinline)) void multiply_rows(float *sums, const float *a, int64_t a_stride, const float *b,
		int64_t n, int64_t rows) {
#define STREAMS 0
#include "block_rows_body.h"
}

// multiply_rows_streaming is multiply_rows where b comes from memory.
static __attribute__((noinline, unused)) void multiply_rows_streaming(float *sums, const float *a, int64_t a_stride,
		const float *b, int64_t n, int64_t rows) {
#define STREAMS 1
#include "block_rows_body.h"
}
