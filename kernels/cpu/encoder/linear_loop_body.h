// The loops over the slices, panels and rows of a product with weights. A file that includes it defines NAME, PANEL,
// BLOCK_R, DEPTH (maximum inputs per slice), STEP (slices are multiples of it), WEIGHTS (the address of a panel's
// slice) and SUMS (computes a block of sums). Optionally it defines BEGIN_SLICE(l, from, inputs, row, rows), which runs
// before the products of a slice of a group of rows, GROUP (maximum rows per group), FEW_ROWS (maximum rows for which
// the slices of a panel follow each other), SHARES (number of parts in which the next weights are prefetched), and
// FETCH_OUTPUTS for fetch_outputs.
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

// GROUP is the number of rows whose inputs of one slice stay in the second-level cache during all panels.
typedef void context; // rows_of needs no context

// fetch_outputs prefetches the outputs of a block and the residuals: outputs last written in a previous layer would
// otherwise stall the stores.
INLINE void fetch_outputs(const slc_linear *l, slice k, int64_t row, int64_t rows, int64_t column) {
	for (int64_t i = row; i < row + rows; i++)
		for (int64_t j = column; j < column + PANEL; j += 16) {
			__builtin_prefetch(l->y + i * l->y_stride + j, 1);
			if (k.ends && l->residual) __builtin_prefetch(l->residual + i * l->residual_stride + j);
		}
}

// rows_of computes a slice of a panel for the rows [row, end), in blocks of about the same size. Meanwhile it
// prefetches the next weights: the processor's own prefetching reached 13 of 34 GB/s here. Each block fetches about the
// same number of their SHARES parts.
INLINE void rows_of(const slc_linear *l, slice k, int64_t panel, int64_t row, int64_t end, const void *next,
		context *none, const int activation) {
	(void)none;
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

#include "linear_order_body.h"

INLINE void product(const slc_linear *l, const int activation) {
	for (int64_t row = 0; row < l->rows; row += GROUP)
		multiply_group(l, row, row + GROUP < l->rows ? row + GROUP : l->rows, NULL, activation);
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
