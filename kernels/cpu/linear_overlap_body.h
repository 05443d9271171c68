// The loops of linear_loop_body.h for tile registers, which multiply a block while the one before is still to be ended:
// otherwise the vector units would wait for the registers' last sums, and these for the vector units. A file that
// includes it defines NAME, PANEL, BLOCK_R, DEPTH, STEP, TILE, GROUP and FEW_ROWS as there, WEIGHTS, and
//   multiply_block(sums, l, k, row, rows, weights, next, end, before)
// which writes sums, meanwhile prefetches from next to end, and may call finish_some(before, …); and BEGIN_SLICE where
// there is one.
#ifndef BEGIN_SLICE
#define BEGIN_SLICE(l, from, inputs, row, rows) (void)0
#endif

static void begin_group(void) {
	amx_configuration c __attribute__((aligned(64))) = amx_whole();
	TILE_CONFIGURE(c);
}

INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// multiply_panel computes a slice of a panel for the rows [row, end), in blocks of about the same size, of which each
// fetches its part of the weights that come next.
static void multiply_panel(const slc_linear *l, slice k, int64_t panel, int64_t row, int64_t end, const uint8_t *next,
		float (*sums)[BLOCK_R * PANEL], int *turn, waiting *before) {
	const uint8_t *weights = WEIGHTS(l, panel, k.from);
	const int64_t bytes = (const uint8_t *)WEIGHTS(l, panel, k.from + k.steps + STEP - 1) - weights;
	for (int64_t blocks = (end - row + BLOCK_R - 1) / BLOCK_R, part = bytes / blocks; blocks > 0; blocks--) {
		const int64_t left = end - row, rows = least(((left + blocks - 1) / blocks + TILE - 1) / TILE * TILE, left);
		float *to = sums[*turn];
		multiply_block(to, l, k, row, rows, weights, next, next + part, before);
		finish_some(before, BLOCK_R);
		before->sums = to, before->k = k, before->row = row, before->rows = rows, before->column = panel * PANEL;
		row += rows, next += part, *turn ^= 1;
	}
}

void NAME(const slc_linear *l) {
	float sums[2][BLOCK_R * PANEL] __attribute__((aligned(64)));
	const int64_t slices = (l->in + DEPTH - 1) / DEPTH;
	const int64_t depth = ((l->in + slices - 1) / slices + STEP - 1) / STEP * STEP;
	const uint8_t *after = l->after ? l->after : WEIGHTS(l, l->last, 0);
	const int64_t panels = l->last - l->first, together = l->rows <= FEW_ROWS ? 1 : panels;
	for (int64_t group = 0; group < l->rows; group += GROUP) {
		const int64_t end = least(group + GROUP, l->rows);
		waiting before = {.l = l, .some = finishes[l->activation]};
		int turn = 0;
		begin_group();
		for (int64_t first = l->first; first < l->last; first += together)
			for (int64_t i = 0; i < slices; i++) {
				slice k = {i * depth, depth, i == 0, i == slices - 1};
				if (k.ends) k.steps = l->in - k.from;
				if (first == l->first) BEGIN_SLICE(l, k.from, k.steps, group, end - group);
				for (int64_t panel = first; panel < first + together; panel++) {
					const uint8_t *next = panel + 1 < first + together ? WEIGHTS(l, panel + 1, k.from)
					                      : !k.ends                    ? WEIGHTS(l, first, k.from + depth)
					                      : panel + 1 < l->last        ? WEIGHTS(l, panel + 1, 0)
					                                                   : after;
					multiply_panel(l, k, panel, group, end, next, sums, &turn, &before);
				}
			}
		finish_some(&before, BLOCK_R);
		TILE_RELEASE();
	}
}
