// A matrix of scores, in the metric's own unit.
#ifndef SLC_MATRIX_CUH
#define SLC_MATRIX_CUH

#include "tiles.cuh"

namespace slc {

// in_unit is a value in the metric's own unit.
SLC_FN float in_unit(float x, int64_t metric, double factor) {
	if (metric == kCosine) return max(min(x, 1.0f), -1.0f);
	if (metric == kIP) return (float)((double)x * factor);
	return (float)((double)square_root(max(-2 * x, 0.0f)) * factor);
}

// matrix writes the scores of a block's tile: out[(row - 32 rows.from) * stride + column - 32 columns.from].
template <class M> SLC_FN void matrix(int64_t format, const Side &rows, const Side &columns, int64_t metric,
		double factor, float *out, int64_t stride) {
	const int64_t row = rows.from + (int64_t)blockIdx.y * kTilePanels,
		column = columns.from + (int64_t)blockIdx.x * kTilePanels;
	float v[kLaneValues];
	values_of<M>(format, v, rows, row, columns, column, slc_dynamic);
	const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
	const int64_t row_end = min(rows.n, rows.to * kPanel), column_end = min(columns.n, columns.to * kPanel);
	const int panels = two_panels(columns);
	for (int p = 0; p < panels; p++) {
		const int64_t first = (column + warp % 2 * 2 + p) * kPanel;
		SLC_UNROLL
		for (int i = 0; i < 32; i++) {
			const int64_t r = (row + warp / 2) * kPanel + M::row(lane, M::row_of(i)),
				c = first + M::column(lane, M::column_of(i));
			if (r >= row_end || c >= column_end) continue;
			out[(r - rows.from * kPanel) * stride + c - columns.from * kPanel] = in_unit(v[i], metric, factor);
		}
		SLC_UNROLL
		for (int i = 0; i < 32; i++) v[i] = v[32 + i];
	}
}

} // namespace slc
#endif
