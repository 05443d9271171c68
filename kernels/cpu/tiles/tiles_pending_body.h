// Finishing one tile while the next is multiplied: its rows are counted or written between register blocks of products.
// Included after tiles_body.h.

// A tile whose products are complete.
typedef struct {
	const float *tile; // NULL: no tile is pending
	int64_t row, column;
	strip *s; // to be counted with
	int last; // whether it is its strip's last tile
} pending;

#if defined(LEVELS)
#include "tiles_pending_avx512.h"
#elif defined(POSITIONS)
#include "tiles_pending_amx.h"
#else

// Progress.
typedef struct {
	int row;
} progress;

INLINE void start_pending(progress *w, const pending *p) { w->row = p->tile ? 0 : SLC_PANEL; }

// advance_pending processes rows until at least the given number of vectors is done.
INLINE void advance_pending(const slc_tiles *t, const pending *p, progress *w, int vectors, const int brackets,
                            const int best, const int write) {
	for (; vectors > 0 && w->row < SLC_PANEL; vectors -= PER_ROW, w->row++) {
		if (write) write_row(t, p->tile, w->row, p->row, p->column);
		else count_row(t, p->s, p->tile, w->row, brackets, best, 0);
		if (!write) add_to_histogram(t->count, p->tile + w->row * SLC_PANEL, 0);
	}
}

// finish_pending processes the rest of the tile, and ends the strip if this was its last one.
INLINE void finish_pending(const slc_tiles *t, pending *p, progress *w, const int brackets, const int best,
                           const int write) {
	if (!p->tile) return;
	advance_pending(t, p, w, SLC_TILE, brackets, best, write);
	if (!write) {
		end_tile(t, p->s);
		if (p->last) end_strip(t, p->s);
	}
	p->tile = 0;
}
#endif

INLINE void finish_last(const slc_tiles *t, pending *p, const int brackets, const int best, const int write) {
	progress w;
	start_pending(&w, p);
	finish_pending(t, p, &w, brackets, best, write);
}
