// Finishing one tile while AMX multiplies the next, which leaves the vector units idle: values are compared with the
// limits. It defines the same type and functions as tiles_pending_body.h.

// A tile's counts, in registers.
typedef struct {
	tally tally;
	int row, kept;
} progress;

INLINE void start_pending(progress *w, const pending *p) {
	w->tally = (tally){0};
	w->row = p->tile ? 0 : SLC_PANEL;
	w->kept = 0;
}

// advance_half processes half h of a row.
INLINE void advance_half(const slc_tiles *t, const pending *p, progress *w, const int h, const int brackets,
                         const int best, const int write) {
	if (w->row >= SLC_PANEL) return;
	if (write) {
		if (h) write_row(t, p->tile, w->row, p->row, p->column);
	} else {
		const uint32_t in = count_vector(t, p->s, &w->tally, p->tile, w->row, h, brackets, best, 0);
		const ivec at = _mm512_add_epi32(_mm512_set1_epi32(w->row * SLC_PANEL + h * W), COUNT_UP);
		// One vector in four may have values to be kept, which is unpredictable for a branch.
		_mm512_storeu_si512(p->s->at + w->kept, _mm512_maskz_compress_epi32(in >> (h * W), at));
		w->kept += __builtin_popcount(in);
		if (h) add_to_histogram(t->count, p->tile + w->row * SLC_PANEL, 0);
	}
	w->row += h;
}

INLINE void advance_pending(const slc_tiles *t, const pending *p, progress *w, int vectors, const int brackets,
                            const int best, const int write) {
	for (; vectors > 0 && w->row < SLC_PANEL; vectors -= PER_ROW) {
		advance_half(t, p, w, 0, brackets, best, write);
		advance_half(t, p, w, 1, brackets, best, write);
	}
}

// append_positions appends the n values of a tile whose positions were found.
INLINE void append_positions(slc_list *l, const strip *s, const float *tile, int n) {
	const ivec inside = _mm512_set1_epi32(SLC_PANEL - 1), first = _mm512_set1_epi32((int)(s->row << 16 | s->column));
	for (int i = 0; i < n; i += 16) {
		const ivec at = _mm512_and_epi32(_mm512_loadu_si512(s->at + i), _mm512_set1_epi32(SLC_TILE - 1));
		const ivec place = _mm512_add_epi32(_mm512_slli_epi32(_mm512_srli_epi32(at, 5), 16),
			_mm512_and_epi32(at, inside));
		put_entries(l->entries + l->count + i, _mm512_i32gather_epi32(at, tile, 4), _mm512_add_epi32(place, first));
	}
	l->count += n;
}

INLINE void finish_pending(const slc_tiles *t, pending *p, progress *w, const int brackets, const int best,
                           const int write) {
	if (!p->tile) return;
	advance_pending(t, p, w, SLC_TILE, brackets, best, write);
	if (!write) {
		strip *s = p->s;
		s->tally.sum[0] = w->tally.sum[0], s->tally.sum2[0] = w->tally.sum2[0];
#pragma GCC unroll 12
		for (int b = 0; b < brackets; b++) s->tally.above[b] += w->tally.above[b];
		if (s->keep) append_positions(&t->count->kept, s, p->tile, w->kept);
		end_tile(t, s);
		if (p->last) end_strip(t, s);
	}
	p->tile = 0;
}
