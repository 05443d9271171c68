// The loop over the tiles of a call for kernels that multiply and consume in turn: `product` makes a tile.
INLINE void count_tiles(const slc_tiles *t, const int brackets, const int best) {
	float tile[SLC_TILE] __attribute__((aligned(64)));
	slc_counter *c = t->count;
	for (int64_t r0 = t->rows.from; r0 < t->rows.to; r0 += t->block) {
		int64_t r1 = r0 + t->block < t->rows.to ? r0 + t->block : t->rows.to;
		for (int64_t lane = t->lanes.from; lane < t->lanes.to; lane++) {
			lane_facts f = facts_of(t, lane);
			sweep s;
			begin_sweep(t, &s, lane);
			for (int64_t row = r0; row < r1; row++) {
				product(t, tile, row, lane);
				begin_tile(t, &s, row);
				if (is_special(t, &f, row)) {
					special(t, &s, tile, row, lane, brackets);
				} else {
					for (int i = 0; i < SLC_PANEL; i++) consume_row(t, &s, tile, i, brackets, best, 0);
					c->counted += SLC_TILE;
					binned(c, tile);
				}
				end_tile(t, &s);
			}
			end_sweep(t, &s);
		}
	}
}

static void write_tiles(const slc_tiles *t) {
	float tile[SLC_TILE] __attribute__((aligned(64)));
	for (int64_t r0 = t->rows.from; r0 < t->rows.to; r0 += t->block) {
		int64_t r1 = r0 + t->block < t->rows.to ? r0 + t->block : t->rows.to;
		for (int64_t lane = t->lanes.from; lane < t->lanes.to; lane++)
			for (int64_t row = r0; row < r1; row++) {
				product(t, tile, row, lane);
				if (whole(t, row, lane))
					for (int i = 0; i < SLC_PANEL; i++) put_row(t, tile, i, row, lane);
				else
					put_some(t, tile, row, lane);
			}
	}
}

void NAME(const slc_tiles *t) {
	if (t->write) write_tiles(t);
	else VARIANTS(count_tiles, t);
}
