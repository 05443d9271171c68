// A block whose sums are complete, and which is finished a few rows at a time (linear_overlap_body.h).
#include "linear_finish_body.h"

// waiting describes the part of a block that is still to be finished.
typedef struct waiting waiting;
typedef void finish_fn(waiting *w, int64_t rows);
struct waiting {
	const slc_linear *l;
	finish_fn *some;
	const float *sums;
	slice k;
	int64_t row, rows, column;
};

#define FINISH(activation) \
	static __attribute__((noinline)) void PASTE(finish_, activation)(waiting *w, int64_t rows) { \
		finish(w->l, w->sums, w->k, w->row, rows, w->column, activation); \
		w->sums += rows * PANEL, w->row += rows, w->rows -= rows; \
	}
FINISH(SLC_NONE)
FINISH(SLC_GELU)
FINISH(SLC_GELU_TANH)
FINISH(SLC_RELU)
FINISH(SLC_TANH)

static finish_fn *const finishes[SLC_ACTIVATIONS] = {
	[SLC_NONE] = finish_SLC_NONE, [SLC_GELU] = finish_SLC_GELU, [SLC_GELU_TANH] = finish_SLC_GELU_TANH,
	[SLC_RELU] = finish_SLC_RELU, [SLC_TANH] = finish_SLC_TANH};

// finish_some finishes up to the given number of rows.
INLINE void finish_some(waiting *w, int64_t rows) {
	if (w->rows > 0) w->some(w, rows < w->rows ? rows : w->rows);
}
