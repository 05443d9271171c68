// Finishing one tile while the next is multiplied, for kernels that count by levels (tiles_levels_avx512.h). It defines
// the same type and functions as tiles_pending_body.h.

INLINE void start_pending(progress *w, const pending *p) {
	*w = (progress){.sum = SET1(0), .sum2 = SET1(0), .next = p->tile, .end = p->tile};
	for (int b = 0; b < SLC_BRACKETS; b++) w->below[b] = (ivec){0};
	if (!p->tile) return;
	w->end = p->tile + SLC_TILE;
	if (p->s) w->marks = p->s->levels.marks;
}

INLINE void advance_pending(const slc_tiles *t, const pending *p, progress *w, int vectors, const int brackets,
                            const int best, const int write) {
	if (write) {
		for (; vectors > 0 && w->next < w->end; vectors -= PER_ROW, w->next += SLC_PANEL)
			write_row(t, p->tile, (int)(w->next - p->tile) / SLC_PANEL, p->row, p->column);
		return;
	}
	for (; vectors > 0 && w->next < w->end; vectors -= PER_ROW) {
		add_to_histogram(t->count, w->next, 0);
		count_levels(&p->s->levels, w, p->s->l2, brackets, best);
	}
}

INLINE void finish_pending(const slc_tiles *t, pending *p, progress *w, const int brackets, const int best,
                           const int write) {
	if (!p->tile) return;
	advance_pending(t, p, w, SLC_TILE, brackets, best, write);
	if (!write) {
		strip *s = p->s;
		slc_counter *c = t->count;
		add_levels(&s->levels, w, brackets);
		s->tally.sum[0] = w->sum, s->tally.sum2[0] = w->sum2;
		const uint32_t *marks = s->levels.marks;
		if (s->keep) append_marked(&c->kept, p->tile, marks, s->row, s->column);
		for (int i = 0; i < SLC_PANEL && !s->keep; i++)
			for (uint32_t m = marks[i]; m; m &= m - 1) {
				const uint32_t j = column_of_mark((uint32_t)__builtin_ctz(m));
				const float value = p->tile[i * SLC_PANEL + j];
				count_misplaced(&s->levels, value);
				if (best) consider(c, (float *)s->best + j, (float *)s->reach + j, value,
				                   (s->row + (uint32_t)i) << 16 | (s->column + j));
			}
		end_tile(t, s);
		if (p->last) end_strip(t, s);
	}
	p->tile = 0;
}
