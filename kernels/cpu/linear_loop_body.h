// The loops over the slices, panels and rows of a product with weights, and what comes after the sums. A file that
// includes it defines NAME, PANEL, BLOCK_R, DEPTH, the most inputs of a slice, STEP, of which a slice has a multiple,
// WEIGHTS, where the weights of a panel and slice lie, and SUMS, which computes a block of sums. Where it needs more,
// it also defines BEGIN_SLICE(l, from, inputs, row, rows), which stands before the products of a slice of a group of
// rows, GROUP, the most rows of a group, FEW_ROWS, the most rows for which the slices of a panel follow each other,
// SHARES, in how many parts the weights that come next are fetched, and FETCH_OUTPUTS for fetch_outputs.
#ifndef BEGIN_SLICE
#define BEGIN_SLICE(l, from, inputs, row, rows) (void)0
#endif
#ifndef FETCH_OUTPUTS
#define FETCH_OUTPUTS fetch_outputs
#endif
#ifndef SHARES
#define SHARES 1
#endif
#ifndef FEW_ROWS
#define FEW_ROWS (4 * BLOCK_R)
#endif
#ifndef GROUP
#define GROUP (512 / BLOCK_R * BLOCK_R)
#endif

#include "linear_finish_body.h"

// GROUP is the rows whose inputs of one slice stay in the second cache while the panels go by. Where there are no more
// than FEW, reading the weights is what takes time, and the slices of a panel follow each other as they lie in memory.
enum { FEW = FEW_ROWS };

// fetch_outputs prefetches the outputs of a block, and the residuals that are added to them: what is written for the
// first time since a layer before would otherwise be waited for when the sums are there.
INLINE void fetch_outputs(const slc_linear *l, slice k, int64_t row, int64_t rows, int64_t column) {
	for (int64_t i = row; i < row + rows; i++)
		for (int64_t j = column; j < column + PANEL; j += 16) {
			__builtin_prefetch(l->y + i * l->y_stride + j, 1);
			if (k.ends && l->residual) __builtin_prefetch(l->residual + i * l->residual_stride + j);
		}
}

// rows_of computes a slice of a panel for the rows [row, end), in blocks of about the same size. Meanwhile it
// prefetches the weights that come next: the processor's own prefetching reached 13 of 34 GB/s here. Of their SHARES
// parts, a block fetches about as many as each of those behind it.
INLINE void rows_of(const slc_linear *l, slice k, int64_t panel, int64_t row, int64_t end, const void *next,
		const int activation) {
	float sums[BLOCK_R * PANEL] __attribute__((aligned(64)));
	int64_t shares = SHARES;
	for (int64_t blocks = (end - row + BLOCK_R - 1) / BLOCK_R; blocks > 0; blocks--) {
		const int64_t rows = (end - row + blocks - 1) / blocks, share = (shares + blocks - 1) / blocks;
		FETCH_OUTPUTS(l, k, row, rows, panel * PANEL);
		SUMS(l, sums, k, row, rows, panel, share ? next : NULL, SHARES - shares, share);
		finish(l, sums, k, row, rows, panel * PANEL, activation);
		row += rows, shares -= share;
	}
}

INLINE void product(const slc_linear *l, const int activation) {
	const int64_t slices = (l->in + DEPTH - 1) / DEPTH;
	const int64_t depth = ((l->in + slices - 1) / slices + STEP - 1) / STEP * STEP;
	const void *after = l->after ? l->after : WEIGHTS(l, l->last, 0);
	const int64_t panels = l->last - l->first, together = l->rows <= FEW ? 1 : panels; // panels of a slice at a time
	for (int64_t group = 0; group < l->rows; group += GROUP) {
		const int64_t end = group + GROUP < l->rows ? group + GROUP : l->rows;
		for (int64_t first = l->first; first < l->last; first += together)
			for (int64_t i = 0; i < slices; i++) {
				slice k = {i * depth, depth, i == 0, i == slices - 1};
				if (k.ends) k.steps = l->in - k.from;
				if (first == l->first) BEGIN_SLICE(l, k.from, k.steps, group, end - group);
				for (int64_t panel = first; panel < first + together; panel++) {
					const void *next = panel + 1 < first + together ? WEIGHTS(l, panel + 1, k.from)
					                   : !k.ends                    ? WEIGHTS(l, first, k.from + depth)
					                   : panel + 1 < l->last        ? WEIGHTS(l, panel + 1, 0)
					                                                : after;
					rows_of(l, k, panel, group, end, next, activation);
				}
			}
	}
}

void NAME(const slc_linear *l) {
	switch (l->activation) {
	case SLC_GELU: product(l, SLC_GELU); break;
	case SLC_GELU_TANH: product(l, SLC_GELU_TANH); break;
	case SLC_RELU: product(l, SLC_RELU); break;
	case SLC_TANH: product(l, SLC_TANH); break;
	default: product(l, SLC_NONE);
	}
}
