// The bodies of slc_linear_i8 and slc_codes_i8, compiled once per instruction set by linear_i8_<isa>.c, which includes
// lanes_<isa>.h and defines ISA, BLOCK_R and BLOCK_V as for block_body.h, and
//   RUN            inputs multiplied per lane: 4, or 2 of 16 bits
//   WORDS(p)       the next weights of W outputs, RUN inputs of each per lane; in memory they have 8 bits
//   WORD(x)        the next RUN codes of a row, in all lanes
//   START(p)       initial integer sums, from the corrections p of the codes' offset
//   DOT(s, x, y)   adds to each lane's sum the products of the codes of x with the weights of y
// and CODES for codes_i8_body.h, which is included at the end. With OWN_PRODUCTS it defines multiply_codes after
// including this file, and CODE_BYTES, instead of WORDS to DOT.
#include <string.h>

#include "linear.h"
#include "lanes_body.h"

#ifndef CODE_BYTES
#define CODE_BYTES (4 / RUN)
#endif

enum {
	PANEL = BLOCK_V * W,
	GROUP_BYTES = SLC_I8_GROUP * PANEL + 2 * PANEL * 4, // a group of inputs: weights, offset corrections, steps
	DEPTH = 30720 / GROUP_BYTES * SLC_I8_GROUP,
	STEP = SLC_I8_GROUP,
	RUNS = SLC_I8_GROUP / RUN
};

// multiply_codes writes the sums of `groups` groups of inputs: the products of a group are added as integers, and their
// sum times the steps of both sides as floats. If fetches is set, it prefetches as much as it reads of the weights from
// `next` on.
INLINE void multiply_codes(float *sums, const uint8_t *codes, int64_t code_stride, const float *steps,
		int64_t step_stride, const uint8_t *weights, int64_t groups, const uint8_t *next, const int fetches,
		const int rows);

#ifndef OWN_PRODUCTS
INLINE void multiply_codes(float *sums, const uint8_t *codes, int64_t code_stride, const float *steps,
		int64_t step_stride, const uint8_t *weights, int64_t groups, const uint8_t *next, const int fetches,
		const int rows) {
	vec s[BLOCK_R][BLOCK_V];
#pragma GCC unroll 16
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
		for (int j = 0; j < BLOCK_V; j++) s[i][j] = SET1(0.f);
	for (int64_t g = 0; g < groups; g++, weights += GROUP_BYTES, codes += RUNS * 4) {
		ivec n[BLOCK_R][BLOCK_V];
#pragma GCC unroll 16
		for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
			for (int j = 0; j < BLOCK_V; j++) n[i][j] = START(weights + SLC_I8_GROUP * PANEL + j * W * 4);
#pragma GCC unroll 16
		for (int k = 0; k < RUNS; k++) {
			ivec y[BLOCK_V];
			if (fetches)
#pragma GCC unroll 4
				for (int j = 0; j < GROUP_BYTES / RUNS; j += 64)
					__builtin_prefetch(next + (g * RUNS + k) * (GROUP_BYTES / RUNS) + j);
#pragma GCC unroll 4
			for (int j = 0; j < BLOCK_V; j++) y[j] = WORDS(weights + (k * PANEL + j * W) * RUN);
#pragma GCC unroll 16
			for (int i = 0; i < rows; i++) {
				int32_t run;
				memcpy(&run, codes + i * code_stride + k * 4, 4);
				ivec x = WORD(run);
#pragma GCC unroll 4
				for (int j = 0; j < BLOCK_V; j++) n[i][j] = DOT(n[i][j], x, y[j]);
			}
		}
		const float *scale = (const float *)(weights + (SLC_I8_GROUP + 4) * PANEL);
#pragma GCC unroll 16
		for (int i = 0; i < rows; i++) {
			vec step = SET1(steps[i * step_stride + g]);
#pragma GCC unroll 4
			for (int j = 0; j < BLOCK_V; j++)
				s[i][j] = MADD(s[i][j], step, __builtin_convertvector(n[i][j], vec) * LOAD(scale + j * W));
		}
	}
#pragma GCC unroll 16
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
		for (int j = 0; j < BLOCK_V; j++) STORE(sums + i * PANEL + j * W, s[i][j]);
}
#endif

static __attribute__((noinline)) void multiply_code_rows(float *sums, const uint8_t *codes, int64_t code_stride,
		const float *steps, int64_t step_stride, const uint8_t *weights, int64_t groups, const uint8_t *next,
		int64_t rows) {
#define MULTIPLY(fetches, rows) \
	multiply_codes(sums, codes, code_stride, steps, step_stride, weights, groups, next, fetches, rows)
#define ROWS(r) \
	case r: \
		if (next) MULTIPLY(1, (r < BLOCK_R ? r : BLOCK_R)); \
		else MULTIPLY(0, (r < BLOCK_R ? r : BLOCK_R)); \
		break;
	switch (rows) {
		ROWS(1)
#if BLOCK_R > 1
		ROWS(2)
#endif
#if BLOCK_R > 2
		ROWS(3) ROWS(4) ROWS(5) ROWS(6)
#endif
	}
}

#define NAME PASTE(slc_linear_i8_, ISA)
#define SUMS(l, sums, k, row, rows, panel, next, begin, share) \
	multiply_code_rows(sums, (l)->codes + (row) * (l)->code_stride + (k).from * CODE_BYTES, (l)->code_stride, \
	                   (l)->steps + (row) * (l)->step_stride + (k).from / SLC_I8_GROUP, (l)->step_stride, \
	                   WEIGHTS(l, panel, (k).from), GROUPS((k).steps), next, rows)
#define WEIGHTS(l, panel, from) \
	((const uint8_t *)(l)->weights + ((panel) * GROUPS((l)->in) + (from) / SLC_I8_GROUP) * GROUP_BYTES)
#define GROUPS(inputs) (((inputs) + SLC_I8_GROUP - 1) / SLC_I8_GROUP)
#include "linear_loop_body.h"

#include "codes_i8_body.h"
