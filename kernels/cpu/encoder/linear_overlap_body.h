// The loops of linear_loop_body.h for tile registers, which multiply one block while the previous one is finished:
// otherwise vector units and tile registers would wait for each other. A file that includes it defines NAME, PANEL,
// BLOCK_R, DEPTH, STEP, TILE, GROUP and FEW_ROWS as there, WEIGHTS, and
//   multiply_block(sums, l, k, row, rows, weights, next, end, before)
// which writes sums, prefetches from next to end, and may call finish_some(before, …); and optionally BEGIN_SLICE.
#ifndef BEGIN_SLICE
#define BEGIN_SLICE(l, from, inputs, row, rows) (void)0
#endif

static void begin_group(void) {
	amx_configuration c __attribute__((aligned(64))) = amx_whole();
	TILE_CONFIGURE(c);
}

INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// The alternating sums of two blocks, and the block that is still to be finished.
typedef struct {
	float sums[2][BLOCK_R * PANEL] __attribute__((aligned(64)));
	int turn;
	waiting before;
} context;

// rows_of computes a slice of a panel for the rows [row, end), in blocks of about the same size, each of which
// prefetches its part of the next weights. The activation belongs to c->before.
INLINE void rows_of(const slc_linear *l, slice k, int64_t panel, int64_t row, int64_t end, const void *next,
		context *c, const int activation) {
	(void)activation;
	const uint8_t *weights = WEIGHTS(l, panel, k.from), *fetch = next;
	const int64_t bytes = WEIGHTS(l, panel, k.from + k.steps + STEP - 1) - weights;
	for (int64_t blocks = (end - row + BLOCK_R - 1) / BLOCK_R, part = bytes / blocks; blocks > 0; blocks--) {
		const int64_t left = end - row, rows = least(((left + blocks - 1) / blocks + TILE - 1) / TILE * TILE, left);
		float *sums = c->sums[c->turn];
		multiply_block(sums, l, k, row, rows, weights, fetch, fetch + part, &c->before);
		finish_some(&c->before, BLOCK_R);
		c->before.sums = sums, c->before.k = k, c->before.column = panel * PANEL;
		c->before.row = row, c->before.rows = rows;
		row += rows, fetch += part, c->turn ^= 1;
	}
}

#include "linear_order_body.h"

void NAME(const slc_linear *l) {
	context c;
	c.turn = 0;
	c.before = (waiting){.l = l, .some = finishes[l->activation]};
	for (int64_t row = 0; row < l->rows; row += GROUP) {
		begin_group();
		multiply_group(l, row, least(row + GROUP, l->rows), &c, SLC_NONE);
		finish_some(&c.before, BLOCK_R);
		TILE_RELEASE();
	}
}
