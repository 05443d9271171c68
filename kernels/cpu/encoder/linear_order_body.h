// The loop order of a product: slices of the inputs, panels of the weights. A file that includes it defines DEPTH,
// STEP,
// WEIGHTS, FEW_ROWS and BEGIN_SLICE (linear_loop_body.h), the type `context`, and
//   rows_of(l, k, panel, row, end, next, context, activation)
// which computes a slice of a panel for the rows [row, end) of a group; `next` points to the next weights.
INLINE void multiply_group(const slc_linear *l, int64_t row, int64_t end, context *c, const int activation) {
	const int64_t slices = (l->in + DEPTH - 1) / DEPTH;
	const int64_t depth = ((l->in + slices - 1) / slices + STEP - 1) / STEP * STEP;
	const void *after = l->after ? l->after : WEIGHTS(l, l->last, 0);
	// With few rows the time is spent on reading weights, so the slices of a panel follow in memory order.
	const int64_t together = l->rows <= FEW_ROWS ? 1 : l->last - l->first; // panels of a slice at a time
	for (int64_t first = l->first; first < l->last; first += together)
		for (int64_t i = 0; i < slices; i++) {
			slice k = {i * depth, depth, i == 0, i == slices - 1};
			if (k.ends) k.steps = l->in - k.from;
			if (first == l->first) BEGIN_SLICE(l, k.from, k.steps, row, end - row);
			for (int64_t panel = first; panel < first + together; panel++) {
				const void *next = panel + 1 < first + together ? WEIGHTS(l, panel + 1, k.from)
				                   : !k.ends                    ? WEIGHTS(l, first, k.from + depth)
				                   : panel + 1 < l->last        ? WEIGHTS(l, panel + 1, 0)
				                                                : after;
				rows_of(l, k, panel, row, end, next, c, activation);
			}
		}
}
