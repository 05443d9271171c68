// Writes tiles to a matrix of scores. Included by tiles_body.h.

// place_of returns the address of a tile's first value in the matrix.
INLINE float *place_of(const slc_tiles *t, int64_t row, int64_t column) {
	return t->write->out + (row - t->rows.from) * SLC_PANEL * t->write->stride + (column - t->columns.from) * SLC_PANEL;
}

// write_row writes row i of a tile as scores; all rows and columns of the tile exist.
INLINE void write_row(const slc_tiles *t, const float *tile, int i, int64_t row, int64_t column) {
	const slc_writer *w = t->write;
	float *to = place_of(t, row, column) + i * w->stride;
	vec v[PER_ROW];
#pragma GCC unroll 8
	for (int h = 0; h < PER_ROW; h++) v[h] = LOAD(tile + i * SLC_PANEL + h * W);
	if (__builtin_expect(w->l2, 0)) {
#pragma GCC unroll 8
		for (int h = 0; h < PER_ROW; h++) v[h] = SQRT(MAX(v[h] * SET1(-2), SET1(0)));
	}
#pragma GCC unroll 8
	for (int h = 0; h < PER_ROW; h++) v[h] = v[h] * SET1(w->factor);
	if (w->stream) {
#pragma GCC unroll 8
		for (int h = 0; h < PER_ROW; h++) STREAM(to + h * W, v[h]);
	} else {
#pragma GCC unroll 8
		for (int h = 0; h < PER_ROW; h++) STORE(to + h * W, v[h]);
	}
}

// write_partial writes the existing part of a tile at the edge.
static void write_partial(const slc_tiles *t, const float *tile, int64_t row, int64_t column) {
	const slc_writer *w = t->write;
	float *to = place_of(t, row, column);
	for (int i = 0; i < SLC_PANEL && row * SLC_PANEL + i < t->rows.n; i++)
		for (int j = 0; j < SLC_PANEL && column * SLC_PANEL + j < t->columns.n; j++) {
			float v = tile[i * SLC_PANEL + j];
			if (w->l2) v = v < 0 ? __builtin_sqrtf(-2 * v) : 0;
			to[i * w->stride + j] = v * w->factor;
		}
}

INLINE int is_whole(const slc_tiles *t, int64_t row, int64_t column) {
	return (row + 1) * SLC_PANEL <= t->rows.n && (column + 1) * SLC_PANEL <= t->columns.n;
}
