// The body of slc_linear_f32 on tile registers, compiled for AMX and for its emulation. A file that includes it
// defines ISA, and includes a lanes_<isa>.h and a tile_ops_<isa>.h.
//
// A float is exactly the sum of three bfloat16: its upper half, that of what is left, and the rest. Of the nine
// products of two such sums, six are added: what is left out is below 2^-20 of a product. Inputs are split once a
// call, a slice of a group of rows at a time; weights, which are floats when packed, so that few rows do not read
// more memory than elsewhere, a slice of a panel at a time, by the group's first block. Both go to l->scratch, in
// blocks of 32 rows (weights: 32 outputs), for each 32 inputs:
//   rows     [3 parts][2 halves][16 rows][32 inputs]
//   weights  [3 parts][2 halves][16 pairs of inputs][16 outputs][2]
// Packed weights: [in/32][2 halves][16 pairs of inputs][2][16 outputs] floats a panel. A row's sum is added in the
// order of the inputs, 32 at a time, in the six instructions of multiply_tiles. The parts of numbers below 2^-110 may
// be too small for the instructions, which count them as 0.
#include <string.h>

#include "linear.h"
#include "lanes_body.h"

// The parts of a panel's slice of DEPTH inputs take 36 KiB. PART is the bytes of one part of a block.
enum { PANEL = 32, BLOCK_R = 32, STEP = 32, DEPTH = SLC_LINEAR_SLICE, PART = 2048, PARTS = 3 * PART };
#define ROW_STEP BLOCK_R
#define GROUP SLC_LINEAR_ROWS
_Static_assert(SLC_LINEAR_FEW == 4 * BLOCK_R, "linear_loop_body.h takes the slices of a panel one after the other");

typedef uint16_t halves_vec __attribute__((vector_size(2 * W)));
typedef uint32_t uvec __attribute__((vector_size(4 * W)));

INLINE vec upper_half(vec x) { return (vec)((uvec)x & 0xffff0000); }

// room is where the parts of a slice of the rows of a call lie: of few rows all slices stay there.
INLINE uint8_t *room(const slc_linear *l, int64_t from) {
	const int64_t blocks = (l->rows + BLOCK_R - 1) / BLOCK_R;
	return (uint8_t *)l->scratch + (l->rows <= SLC_LINEAR_FEW ? blocks * (from / STEP) * PARTS : 0);
}

// split_rows splits a slice of the rows [row, row + rows) and puts zeros behind the last, to whole tiles.
static void split_rows(const slc_linear *l, int64_t from, int64_t inputs, int64_t row, int64_t rows) {
	uint8_t *to = room(l, from);
	for (int64_t first = 0; first < rows; first += BLOCK_R)
		for (int64_t k = 0; k < inputs; k += STEP, to += PARTS)
			for (int64_t i = 0; i < (rows - first > 16 ? 32 : 16); i++)
				for (int64_t j = 0; j < STEP; j += W) {
					const int64_t n = first + i >= rows ? 0 : inputs - k - j;
					const float *x = l->x + (row + first + i) * l->x_stride + from + k + j;
					vec v = n >= W ? LOAD(x) : n > 0 ? LOADN(x, n) : SET1(0.f);
#pragma GCC unroll 3
					for (int part = 0; part < 3; part++) {
						const halves_vec half = __builtin_convertvector((uvec)v >> 16, halves_vec);
						memcpy(to + part * PART + 64 * i + 2 * j, &half, sizeof half);
						v = v - upper_half(v);
					}
				}
}

// split_weights splits the weights of a panel and 32 inputs.
INLINE void split_weights(uint8_t *to, const float *weights) {
	for (int i = 0; i < 32; i++)
#pragma GCC unroll 2
		for (int j = 0; j < 16; j += W) {
			vec even = LOAD(weights + i * 32 + j), odd = LOAD(weights + i * 32 + 16 + j);
#pragma GCC unroll 3
			for (int part = 0; part < 3; part++) {
				const vec pair = (vec)((uvec)even >> 16 | (uvec)upper_half(odd));
				STORE((float *)(to + part * PART + 64 * i + 4 * j), pair);
				even = even - upper_half(even), odd = odd - upper_half(odd);
			}
		}
}

// multiply_tiles writes the sums of 16 or 32 rows (halves: 1 or 2), whose parts are at a, over so many steps. With
// packed weights, it splits them into b, one step ahead of the products, and prefetches as much of the weights from
// `next` on; without, b has the parts already.
INLINE void multiply_tiles(float *sums, const uint8_t *a, uint8_t *b, int64_t steps, const float *weights,
		const uint8_t *next, const int halves) {
	TILE_ZERO(0);
	TILE_ZERO(1);
	if (halves == 2) {
		TILE_ZERO(2);
		TILE_ZERO(3);
	}
	if (weights) split_weights(b, weights);
	for (int64_t k = 0; k < steps; k++, a += PARTS, b += PARTS) {
		if (weights) {
			if (k + 1 < steps) split_weights(b + PARTS, weights + (k + 1) * STEP * PANEL);
			for (int at = 0; at < STEP * PANEL * 4; at += 64) __builtin_prefetch(next + k * STEP * PANEL * 4 + at);
		}
#define PRODUCTS(left, right) \
	TILE_BF16(0, 4, 6); \
	right; \
	TILE_BF16(1, 4, 7); \
	if (halves == 2) { \
		left; \
		TILE_BF16(2, 5, 6); \
		TILE_BF16(3, 5, 7); \
	}
#define LEFT(part) TILE_LOAD(5, a + (part) * PART + 1024, 64)
#define RIGHT(part) TILE_LOAD(7, b + (part) * PART + 1024, 64)
#define KEPT
		TILE_LOAD(4, a, 64); // high · low
		TILE_LOAD(6, b + 2 * PART, 64);
		PRODUCTS(LEFT(0), RIGHT(2))
		TILE_LOAD(6, b, 64); // high · high
		PRODUCTS(KEPT, RIGHT(0))
		TILE_LOAD(4, a + 2 * PART, 64); // low · high
		PRODUCTS(LEFT(2), KEPT)
		TILE_LOAD(4, a + PART, 64); // middle · high
		PRODUCTS(LEFT(1), KEPT)
		TILE_LOAD(6, b + PART, 64); // middle · middle
		PRODUCTS(KEPT, RIGHT(1))
		TILE_LOAD(4, a, 64); // high · middle
		PRODUCTS(LEFT(0), KEPT)
#undef PRODUCTS
#undef LEFT
#undef RIGHT
#undef KEPT
	}
	TILE_STORE(0, sums, 4 * PANEL);
	TILE_STORE(1, sums + 16, 4 * PANEL);
	if (halves == 2) {
		TILE_STORE(2, sums + 16 * PANEL, 4 * PANEL);
		TILE_STORE(3, sums + 16 * PANEL + 16, 4 * PANEL);
	}
}

// multiply_rows is multiply_tiles for rows of a group, of which the first block has something to prefetch. A row's
// sums do not depend on the others.
static __attribute__((noinline)) void multiply_rows(float *sums, const slc_linear *l, int64_t from, int64_t inputs,
		int64_t row, int64_t rows, const float *weights, const uint8_t *next) {
	const int64_t steps = (inputs + STEP - 1) / STEP;
	const uint8_t *a = room(l, from) + row % GROUP / BLOCK_R * steps * PARTS;
	uint8_t *b = (uint8_t *)l->scratch + slc_linear_split_bytes(l->rows, l->in);
	if (!next) weights = NULL;
	if (rows > 16) multiply_tiles(sums, a, b, steps, weights, next, 2);
	else multiply_tiles(sums, a, b, steps, weights, next, 1);
}

INLINE void begin_group(void) {
	amx_configuration c __attribute__((aligned(64))) = amx_whole();
	TILE_CONFIGURE(c);
}

#define NAME PASTE(slc_linear_f32_, ISA)
#define SUMS(l, sums, k, row, rows, panel, next, begin, share) \
	multiply_rows(sums, l, (k).from, (k).steps, row, rows, WEIGHTS(l, panel, (k).from), next)
#define WEIGHTS(l, panel, from) \
	((const float *)(l)->weights + ((panel) * (((l)->in + STEP - 1) / STEP * STEP) + (from)) * PANEL)
#define BEGIN_GROUP begin_group
#define BEGIN_SLICE split_rows
#define END_GROUP TILE_RELEASE
#include "linear_loop_body.h"
