// The loops over the tiles of a call for kernels with a function
//   product(t, tile, row, column, pending, brackets, best, write)
// that computes a tile and finishes the pending one meanwhile: finishing it at once would delay loads of the products.
// BEGIN and END, if defined, are how a call begins and ends.
INLINE void count_tiles(const slc_tiles *t, const int brackets, const int best) {
	float tiles[2][SLC_TILE] __attribute__((aligned(64)));
	strip strips[2]; // the last tile of one is finished while the first of the next is multiplied
	slc_counter *c = t->count;
	pending before = {0};
	int now = 0;
	for (int64_t r0 = t->rows.from; r0 < t->rows.to; r0 += t->block) {
		int64_t r1 = r0 + t->block < t->rows.to ? r0 + t->block : t->rows.to;
		for (int64_t column = t->columns.from; column < t->columns.to; column++) {
			exclusion x = exclusion_of(t, column);
			strip *s = &strips[column & 1];
			for (int64_t row = r0; row < r1; row++) {
				float *tile = tiles[now];
				product(t, tile, row, column, &before, brackets, best, 0);
				if (row == r0) begin_strip(t, s, column);
				begin_tile(t, s, row);
				if (!may_exclude(t, &x, row)) {
					c->counted += SLC_TILE;
#ifdef LEVELS
					if (s->levels.fresh) raise_reach(&s->levels, tile, c->margin, s->best, s->reach);
#endif
					before = (pending){tile, row, column, s, row == r1 - 1};
					now = !now;
					continue;
				}
				count_excluding(t, s, tile, row, column, brackets);
				end_tile(t, s);
				if (row == r1 - 1) end_strip(t, s);
			}
		}
	}
	finish_last(t, &before, brackets, best, 0);
}

static void write_tiles(const slc_tiles *t) {
	float tiles[2][SLC_TILE] __attribute__((aligned(64)));
	pending before = {0};
	int now = 0;
	for (int64_t r0 = t->rows.from; r0 < t->rows.to; r0 += t->block) {
		int64_t r1 = r0 + t->block < t->rows.to ? r0 + t->block : t->rows.to;
		for (int64_t column = t->columns.from; column < t->columns.to; column++)
			for (int64_t row = r0; row < r1; row++) {
				product(t, tiles[now], row, column, &before, 0, 0, 1);
				if (is_whole(t, row, column)) {
					before = (pending){.tile = tiles[now], .row = row, .column = column};
					now = !now;
				} else {
					write_partial(t, tiles[now], row, column);
				}
			}
	}
	finish_last(t, &before, 0, 0, 1);
}

#ifndef BEGIN
#define BEGIN
#define END
#endif

void NAME(const slc_tiles *t) {
	BEGIN;
	if (t->write) write_tiles(t);
	else VARIANTS(count_tiles, t);
	END;
}
