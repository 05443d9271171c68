// The body of slc_linear_i8 on tile registers, compiled for AMX and for its emulation. A file that includes it defines
// ISA, and includes a lanes_<isa>.h and a tile_ops_<isa>.h.
//
// An instruction multiplies a group of inputs of 16 rows with those of 16 outputs. What follows is the arithmetic of
// linear_i8_body.h with VNNI in the same order: sums are exact integers, so the outputs have the same bits.
#include <string.h>

#include "linear.h"
#include "lanes_body.h"

enum {
	PANEL = 16,
	BLOCK_R = 16,
	STEP = SLC_I8_GROUP,
	DEPTH = 768, // the kernel with VNNI has the same: where a slice ends, its sum is rounded
	GROUP_BYTES = SLC_I8_GROUP * PANEL + 2 * PANEL * 4, // as in linear_i8_body.h
	VECTORS = PANEL / W
};
#define ROW_STEP BLOCK_R

typedef struct {
	const uint8_t *codes;
	const float *steps;
	int64_t code_stride, step_stride;
} coded_rows;

// PRODUCTS writes the sums of a group of inputs to n, from the tile registers `to`, a and b.
#define PRODUCTS(to, a, b, x, x_stride, w, n) \
	do { \
		TILE_LOAD(a, x, x_stride); \
		TILE_LOAD(b, w, 64); \
		TILE_ZERO(to); \
		TILE_I8(to, a, b); \
		TILE_STORE(to, n, 64); \
	} while (0)

// add_products adds a row's products of a group, times the steps of both sides.
INLINE void add_products(vec *s, const int32_t *n, float row_step, const uint8_t *weights) {
	const float *scale = (const float *)(weights + (SLC_I8_GROUP + 4) * PANEL);
	const vec step = SET1(row_step);
#pragma GCC unroll 2
	for (int j = 0; j < VECTORS; j++) {
		ivec integers;
		memcpy(&integers, n + j * W, sizeof integers);
		s[j] = MADD(s[j], step, __builtin_convertvector(integers, vec) * LOAD(scale + j * W));
	}
}

INLINE void prefetch(const uint8_t *next) {
	if (next)
#pragma GCC unroll 16
		for (int at = 0; at < GROUP_BYTES; at += 64) __builtin_prefetch(next + at);
}

// multiply_block is for BLOCK_R rows, whose sums stay in registers. Two groups at a time, so that the products of one
// do not wait for those of the other.
static __attribute__((noinline)) void multiply_block(float *sums, const coded_rows *r, const uint8_t *weights,
		int64_t groups, const uint8_t *next) {
	int32_t n[2][BLOCK_R][PANEL] __attribute__((aligned(64)));
	vec s[BLOCK_R][VECTORS];
#pragma GCC unroll 16
	for (int i = 0; i < BLOCK_R; i++)
#pragma GCC unroll 2
		for (int j = 0; j < VECTORS; j++) s[i][j] = SET1(0.f);
	for (int64_t g = 0; g < groups; g += 2) {
		const uint8_t *w = weights + g * GROUP_BYTES, *x = r->codes + g * SLC_I8_GROUP;
		const int both = g + 1 < groups;
		PRODUCTS(0, 4, 6, x, r->code_stride, w, n[0]);
		if (both) PRODUCTS(1, 5, 7, x + SLC_I8_GROUP, r->code_stride, w + GROUP_BYTES, n[1]);
		if (next) {
			prefetch(next + g * GROUP_BYTES);
			prefetch(next + (g + 1) * GROUP_BYTES);
		}
#pragma GCC unroll 16
		for (int i = 0; i < BLOCK_R; i++) add_products(s[i], n[0][i], r->steps[i * r->step_stride + g], w);
		if (both)
#pragma GCC unroll 16
			for (int i = 0; i < BLOCK_R; i++)
				add_products(s[i], n[1][i], r->steps[i * r->step_stride + g + 1], w + GROUP_BYTES);
	}
#pragma GCC unroll 16
	for (int i = 0; i < BLOCK_R; i++)
#pragma GCC unroll 2
		for (int j = 0; j < VECTORS; j++) STORE(sums + i * PANEL + j * W, s[i][j]);
}

// multiply_few is for fewer rows, which it copies: a tile is read whole.
static __attribute__((noinline)) void multiply_few(float *sums, const coded_rows *r, const uint8_t *weights,
		int64_t groups, const uint8_t *next, int64_t rows) {
	int32_t n[BLOCK_R][PANEL] __attribute__((aligned(64)));
	uint8_t x[BLOCK_R][SLC_I8_GROUP] __attribute__((aligned(64))) = {{0}};
	vec s[BLOCK_R][VECTORS];
	for (int64_t i = 0; i < rows; i++)
		for (int j = 0; j < VECTORS; j++) s[i][j] = SET1(0.f);
	for (int64_t g = 0; g < groups; g++, weights += GROUP_BYTES) {
		for (int64_t i = 0; i < rows; i++)
			memcpy(x[i], r->codes + i * r->code_stride + g * SLC_I8_GROUP, SLC_I8_GROUP);
		PRODUCTS(0, 4, 6, x, SLC_I8_GROUP, weights, n);
		if (next) prefetch(next + g * GROUP_BYTES);
		for (int64_t i = 0; i < rows; i++) add_products(s[i], n[i], r->steps[i * r->step_stride + g], weights);
	}
	for (int64_t i = 0; i < rows; i++)
		for (int j = 0; j < VECTORS; j++) STORE(sums + i * PANEL + j * W, s[i][j]);
}

INLINE void multiply_code_rows(float *sums, const slc_linear *l, int64_t from, int64_t inputs, int64_t row,
		int64_t rows, const uint8_t *weights, const uint8_t *next) {
	const coded_rows r = {l->codes + row * l->code_stride + from, l->steps + row * l->step_stride + from / SLC_I8_GROUP,
	                      l->code_stride, l->step_stride};
	const int64_t groups = (inputs + SLC_I8_GROUP - 1) / SLC_I8_GROUP;
	if (rows == BLOCK_R) multiply_block(sums, &r, weights, groups, next);
	else multiply_few(sums, &r, weights, groups, next, rows);
}

// begin_group: registers 4 and 5 are rows of a group of inputs, 6 and 7 its weights, four inputs a row.
INLINE void begin_group(void) {
	amx_configuration c __attribute__((aligned(64))) = amx_whole();
	c.columns[4] = c.columns[5] = SLC_I8_GROUP, c.rows[6] = c.rows[7] = SLC_I8_GROUP / 4;
	TILE_CONFIGURE(c);
}

#define NAME PASTE(slc_linear_i8_, ISA)
#define SUMS(l, sums, k, row, rows, panel, next, begin, share) \
	multiply_code_rows(sums, l, (k).from, (k).steps, row, rows, WEIGHTS(l, panel, (k).from), next)
#define WEIGHTS(l, panel, from) \
	((const uint8_t *)(l)->weights + ((panel) * (((l)->in + STEP - 1) / STEP) + (from) / STEP) * GROUP_BYTES)
#define BEGIN_GROUP begin_group
#define END_GROUP TILE_RELEASE
#include "linear_loop_body.h"
