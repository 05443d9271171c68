// The loop over the tiles of a call for kernels that multiply and consume in turn: `product` makes a tile, and may
// meanwhile write rows of the one before: all at once they would hold up what the products read.
INLINE void count_tiles(const slc_tiles *t, const int brackets, const int best) {
	float tile[SLC_TILE] __attribute__((aligned(64)));
	slc_counter *c = t->count;
	unwritten none = {.at = SLC_PANEL};
	for (int64_t r0 = t->rows.from; r0 < t->rows.to; r0 += t->block) {
		int64_t r1 = r0 + t->block < t->rows.to ? r0 + t->block : t->rows.to;
		for (int64_t lane = t->lanes.from; lane < t->lanes.to; lane++) {
			lane_facts f = facts_of(t, lane);
			sweep s;
			begin_sweep(t, &s, lane);
			for (int64_t row = r0; row < r1; row++) {
				product(t, tile, row, lane, &none);
				begin_tile(t, &s, row);
				if (is_special(t, &f, row)) {
					special(t, &s, tile, row, lane, brackets);
				} else {
					for (int i = 0; i < SLC_PANEL; i++) consume_row(t, &s, tile, i, brackets, best, 0);
					c->counted += SLC_TILE;
					binned(c, tile);
				}
				end_tile(t, &s, tile);
			}
			end_sweep(t, &s);
		}
	}
}

static void write_tiles(const slc_tiles *t) {
	float tiles[2][SLC_TILE] __attribute__((aligned(64)));
	unwritten last = {.at = SLC_PANEL};
	int now = 0;
	for (int64_t r0 = t->rows.from; r0 < t->rows.to; r0 += t->block) {
		int64_t r1 = r0 + t->block < t->rows.to ? r0 + t->block : t->rows.to;
		for (int64_t lane = t->lanes.from; lane < t->lanes.to; lane++)
			for (int64_t row = r0; row < r1; row++) {
				product(t, tiles[now], row, lane, &last);
				write_rows(t, &last, SLC_PANEL);
				if (whole(t, row, lane)) {
					last = (unwritten){tiles[now], row, lane, 0};
					now = !now;
				} else {
					put_some(t, tiles[now], row, lane);
				}
			}
	}
	write_rows(t, &last, SLC_PANEL);
}

void NAME(const slc_tiles *t) {
	if (t->write) write_tiles(t);
	else VARIANTS(count_tiles, t);
}
