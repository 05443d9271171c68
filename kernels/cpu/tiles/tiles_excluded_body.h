// Tiles with pairs that are excluded from a count: padding beyond the last vector, a query's own context, or, depending
// on the count, pairs of one group ("near" pairs; an own pair is always near). Included by tiles_body.h.

// The excluded pairs: padding only, own pairs as well, or all near ones.
enum { PADDING, OWN, NEAR };

// mark_excluded copies a tile, with NaN in place of excluded pairs.
static void mark_excluded(const slc_tiles *t, float *to, const float *from, int64_t row, int64_t column, int kind) {
	const slc_counter *c = t->count;
	const float nan = __builtin_nanf("");
	const int64_t r0 = row * SLC_PANEL, l0 = column * SLC_PANEL;
	const int rows = t->rows.n - r0 < SLC_PANEL ? (int)(t->rows.n - r0) : SLC_PANEL;
	const int columns = t->columns.n - l0 < SLC_PANEL ? (int)(t->columns.n - l0) : SLC_PANEL;
	memcpy(to, from, sizeof(float) * SLC_TILE);
	for (int i = 0; i < SLC_PANEL; i++)
		for (int j = i < rows ? columns : 0; j < SLC_PANEL; j++) to[i * SLC_PANEL + j] = nan;
	for (int j = 0; kind != PADDING && j < columns; j++) {
		const int64_t i = c->own[l0 + j] - r0;
		if (i >= 0 && i < rows) to[i * SLC_PANEL + j] = nan;
	}
	for (int i = 0; kind == NEAR && c->row_group && i < rows; i++)
		for (int j = 0; j < columns; j++)
			if (c->row_group[r0 + i] == c->column_group[l0 + j]) to[i * SLC_PANEL + j] = nan;
}

// best_of_all keeps candidates for the maximum that includes near pairs.
static void best_of_all(slc_counter *c, const float *tile, uint32_t row, uint32_t column) {
	float *best = c->best_all + column, reach[SLC_PANEL];
	for (int j = 0; j < SLC_PANEL; j++) reach[j] = best[j] - c->margin;
	for (int i = 0; i < SLC_PANEL; i++, tile += SLC_PANEL) {
		uint32_t hits = 0;
		for (int h = 0; h < PER_ROW; h++) hits |= BITS(GE(LOAD(tile + h * W), LOAD(reach + h * W))) << (h * W);
		for (; hits; hits &= hits - 1) {
			const uint32_t j = (uint32_t)__builtin_ctz(hits);
			if (c->all.count < c->all.capacity)
				c->all.entries[c->all.count++] = (slc_entry){tile[j], (row + (uint32_t)i) << 16 | (column + j)};
			else
				c->all.full = 1;
			if (tile[j] > best[j]) best[j] = tile[j], reach[j] = tile[j] - c->margin;
		}
	}
}

// count_excluding counts a tile that may hold excluded pairs, between begin_tile and end_tile.
INLINE void count_excluding(const slc_tiles *t, strip *s, const float *tile, int64_t row, int64_t column,
                            const int brackets) {
	slc_counter *c = t->count;
	float copy[SLC_TILE] __attribute__((aligned(64)));
#ifdef LEVELS
	check_marked(c, &s->levels, s->best, s->reach, s->column); // the rest does not compare levels
#endif
	if (c->best) {
		mark_excluded(t, copy, tile, row, column, PADDING);
		best_of_all(c, copy, s->row, s->column);
	}
	mark_excluded(t, copy, tile, row, column, c->cross_group ? NEAR : OWN);
	for (int i = 0; i < SLC_PANEL; i++) {
		count_row(t, s, copy, i, brackets, 0, 1);
		add_to_histogram(c, copy + i * SLC_PANEL, 1);
	}
#ifdef LEVELS
	s->levels.unchecked = c->kept.count;
#endif
	for (int i = 0; i < SLC_TILE; i += W)
		c->counted += __builtin_popcount(BITS(GE(LOAD(copy + i), LOAD(copy + i)))); // not NaN
	if (!c->best) return;
	if (!c->cross_group && c->row_group) mark_excluded(t, copy, tile, row, column, NEAR);
	for (int i = 0; i < SLC_PANEL; i++) count_row(t, s, copy, i, -1, 1, 1);
}

// The range of own rows and groups of a strip's columns, and whether some columns are padding; this determines which
// tiles may have excluded pairs.
typedef struct {
	int32_t own_low, own_high, group_low, group_high;
	int partial;
} exclusion;

INLINE exclusion exclusion_of(const slc_tiles *t, int64_t column) {
	const slc_counter *c = t->count;
	int64_t from = column * SLC_PANEL, to = from + SLC_PANEL;
	exclusion x = {INT32_MAX, -1, INT32_MAX, INT32_MIN, to > t->columns.n};
	if (x.partial) to = t->columns.n;
	for (int64_t l = from; l < to; l++) {
		if (c->own[l] >= 0 && c->own[l] < x.own_low) x.own_low = c->own[l];
		if (c->own[l] > x.own_high) x.own_high = c->own[l];
		if (!c->row_group) continue;
		if (c->column_group[l] < x.group_low) x.group_low = c->column_group[l];
		if (c->column_group[l] > x.group_high) x.group_high = c->column_group[l];
	}
	return x;
}

// may_exclude reports whether the tile of these rows may have excluded pairs.
INLINE int may_exclude(const slc_tiles *t, const exclusion *x, int64_t row) {
	const slc_counter *c = t->count;
	int64_t from = row * SLC_PANEL, to = from + SLC_PANEL;
	if (x->partial || to > t->rows.n) return 1;
	if (x->own_high >= from && x->own_low < to) return 1;
	if (!c->row_group) return 0;
	int hit = 0;
	for (int64_t r = from; r < to; r++) hit |= c->row_group[r] >= x->group_low && c->row_group[r] <= x->group_high;
	return hit;
}
