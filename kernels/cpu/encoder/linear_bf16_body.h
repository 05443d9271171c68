// The bodies of slc_linear_i8 and slc_codes_i8 where bfloat16 replaces 8-bit codes, on tile registers, compiled for AMX
// and for its emulation. A file that includes it defines ISA, includes a lanes_<isa>.h and a tile_ops_<isa>.h, and
// defines
//   BF16(p, a, b)  stores the values of two vectors as bfloat16, rounded to nearest even, one after the other
//
// Both sides are bfloat16 here, not codes with steps: TDPBF16PS adds up whole rows, whereas the sums of TDPBSSD would
// have to be stored, scaled and added for every 32 inputs, which takes three times as long. Every bfloat16 has its own
// 8 significant bits, whereas codes share a step, so outputs are several times closer to float32; weights take two
// bytes instead of one and a quarter. A row's sum is added in the order of the inputs, 32 at a time, and slices are
// added one after the other. Packed weights: a panel has for each 32 inputs
//   [2 halves][16 pairs of inputs][16 outputs][2]
#include <string.h>

#include "linear.h"
#include "lanes_body.h"

// DEPTH is the number of inputs per slice; its weights of a panel and its rows of a block are 24 KiB each, so both stay
// in the first-level cache.
enum {
	PANEL = 32,
	BLOCK_R = 32,
	TILE = 16,
	STEP = 32,
	DEPTH = 384,
	STEP_BYTES = 2 * STEP * PANEL,
	GROUP = 512,
	FEW_ROWS = 128
};
_Static_assert((int)STEP == (int)SLC_I8_GROUP, "rows of codes are padded to whole groups");

// round_step writes the next 32 of n values, padded with zeros.
INLINE void round_step(uint8_t *to, const float *x, int64_t n) {
	float padded[STEP] __attribute__((aligned(64)));
	if (n < STEP) {
		memset(padded, 0, sizeof padded);
		if (n > 0) memcpy(padded, x, n * sizeof *x);
		x = padded;
	}
#pragma GCC unroll 2
	for (int j = 0; j < STEP; j += 2 * W) BF16(to + 2 * j, LOAD(x + j), LOAD(x + j + W));
}

// Rows are stored as consecutive tiles, [16 rows][32 inputs]; 16 rows take 16 times code_stride bytes. Rows of zeros
// pad the last tile.
void PASTE(slc_codes_bf16_, ISA)(const float *x, int64_t rows, int64_t stride, int64_t in, uint8_t *codes,
                               int64_t code_stride, float *steps, int64_t step_stride) {
	(void)steps, (void)step_stride;
	for (int64_t i = 0; i < rows || i % TILE; i++) {
		const float *row = x + (i < rows ? i * stride : 0);
		uint8_t *to = codes + i / TILE * TILE * code_stride + i % TILE * 2 * STEP;
		int64_t left = i < rows ? in : 0;
		for (; left >= STEP; left -= STEP, row += STEP, to += TILE * 2 * STEP) round_step(to, row, STEP);
		const uint8_t *end = codes + (i / TILE + 1) * TILE * code_stride;
		for (; to < end; left = 0, to += TILE * 2 * STEP) round_step(to, row, left);
	}
}

void PASTE(slc_linear_pack_bf16_, ISA)(float *packed, const float *weights, int64_t stride, int64_t out, int64_t in) {
	uint8_t *to = (uint8_t *)packed;
	for (int64_t panel = 0; panel < out; panel += PANEL)
		for (int64_t k = 0; k < in; k += STEP)
			for (int64_t half = panel; half < panel + PANEL; half += TILE, to += STEP_BYTES / 2)
				for (int64_t j = 0; j < TILE; j++) {
					uint8_t pairs[2 * STEP];
					const int there = half + j < out;
					round_step(pairs, weights + (there ? (half + j) * stride + k : 0), there ? in - k : 0);
					for (int i = 0; i < STEP / 2; i++) memcpy(to + 64 * i + 4 * j, pairs + 4 * i, 4);
				}
}

#include "linear_waiting_body.h"

// multiply_tiles writes the sums of up to 16 or 32 rows (halves: 1 or 2), prefetches from next to end, and finishes the
// previous block.
INLINE void multiply_tiles(float *sums, const uint8_t *x, int64_t tile, const uint8_t *w, int64_t steps,
		const uint8_t *next, const uint8_t *end, waiting *before, const int halves) {
	const int64_t lines = ((end - next) / 64 + steps - 1) / steps, rows = (before->rows + steps - 1) / steps;
	TILE_ZERO(0);
	TILE_ZERO(1);
	if (halves == 2) {
		TILE_ZERO(2);
		TILE_ZERO(3);
	}
	for (int64_t k = 0; k < steps; k++, x += TILE * 2 * STEP, w += STEP_BYTES) {
		TILE_LOAD(4, x, 64);
		TILE_LOAD(6, w, 64);
		TILE_BF16(0, 4, 6);
		TILE_LOAD(7, w + STEP_BYTES / 2, 64);
		TILE_BF16(1, 4, 7);
		if (halves == 2) {
			TILE_LOAD(5, x + tile, 64);
			TILE_BF16(2, 5, 6);
			TILE_BF16(3, 5, 7);
		}
		for (int64_t i = 0; i < lines && next < end; i++, next += 64) __builtin_prefetch(next, 0, 2);
		finish_some(before, rows);
	}
	TILE_STORE(0, sums, 4 * PANEL);
	TILE_STORE(1, sums + TILE, 4 * PANEL);
	if (halves == 2) {
		TILE_STORE(2, sums + TILE * PANEL, 4 * PANEL);
		TILE_STORE(3, sums + TILE * PANEL + TILE, 4 * PANEL);
	}
}

static __attribute__((noinline)) void multiply_block(float *sums, const slc_linear *l, slice k, int64_t row,
		int64_t rows, const uint8_t *weights, const uint8_t *next, const uint8_t *end, waiting *before) {
	const uint8_t *x = l->codes + row * l->code_stride + 2 * TILE * k.from;
	const int64_t steps = (k.steps + STEP - 1) / STEP, tile = TILE * l->code_stride;
	if (rows > TILE) multiply_tiles(sums, x, tile, weights, steps, next, end, before, 2);
	else multiply_tiles(sums, x, tile, weights, steps, next, end, before, 1);
}

#define NAME PASTE(slc_linear_bf16_, ISA)
#define WEIGHTS(l, panel, from) \
	((const uint8_t *)(l)->weights + ((panel) * (((l)->in + STEP - 1) / STEP) + (from) / STEP) * STEP_BYTES)
#include "linear_overlap_body.h"
