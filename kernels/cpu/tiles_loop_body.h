// The loop over the tiles of a call for kernels that multiply and consume in turn: `product` makes a tile, and may
// meanwhile write rows of the one before: all at once they would hold up what the products read.
INLINE void finish_pending(const slc_tiles *t, pending *p, const int brackets, const int best) {
	if (!p->s) return;
	take_rows(t, p, SLC_PANEL, brackets, best, 0);
	end_tile(t, p->s, p->tile);
	p->s = 0;
}

INLINE void count_tiles(const slc_tiles *t, const int brackets, const int best) {
	float tiles[2][SLC_TILE] __attribute__((aligned(64)));
	sweep sweeps[2];
	slc_counter *c = t->count;
	pending before = {.at = SLC_PANEL};
	int now = 0;
	for (int64_t r0 = t->rows.from; r0 < t->rows.to; r0 += t->block) {
		int64_t r1 = r0 + t->block < t->rows.to ? r0 + t->block : t->rows.to;
		for (int64_t lane = t->lanes.from; lane < t->lanes.to; lane++) {
			lane_facts f = facts_of(t, lane);
			sweep *s = &sweeps[lane & 1];
			begin_sweep(t, s, lane);
			for (int64_t row = r0; row < r1; row++) {
				float *tile = tiles[now];
				product(t, tile, row, lane, &before, brackets, best, 0);
				finish_pending(t, &before, brackets, best);
				begin_tile(t, s, row);
				if (is_special(t, &f, row)) {
					special(t, s, tile, row, lane, brackets);
					end_tile(t, s, tile);
				} else {
					c->counted += SLC_TILE;
					binned(c, tile);
					before = (pending){tile, row, lane, 0, s};
					now = !now;
				}
			}
			if (r1 == t->rows.to || 1) finish_pending(t, &before, brackets, best);
			end_sweep(t, s);
		}
	}
}

static void write_tiles(const slc_tiles *t) {
	float tiles[2][SLC_TILE] __attribute__((aligned(64)));
	pending before = {.at = SLC_PANEL};
	int now = 0;
	for (int64_t r0 = t->rows.from; r0 < t->rows.to; r0 += t->block) {
		int64_t r1 = r0 + t->block < t->rows.to ? r0 + t->block : t->rows.to;
		for (int64_t lane = t->lanes.from; lane < t->lanes.to; lane++)
			for (int64_t row = r0; row < r1; row++) {
				product(t, tiles[now], row, lane, &before, 0, 0, 1);
				take_rows(t, &before, SLC_PANEL, 0, 0, 1);
				if (whole(t, row, lane)) {
					before = (pending){tiles[now], row, lane, 0, 0};
					now = !now;
				} else {
					put_some(t, tiles[now], row, lane);
				}
			}
	}
	take_rows(t, &before, SLC_PANEL, 0, 0, 1);
}

void NAME(const slc_tiles *t) {
	if (t->write) write_tiles(t);
	else VARIANTS(count_tiles, t);
}
