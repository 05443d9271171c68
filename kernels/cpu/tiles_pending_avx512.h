// Finishing one tile while the next is multiplied, for kernels that count by signs (tiles_signs_avx512.h). The type
// pending and the functions are those of tiles_pending_body.h.

INLINE progress start_pending(const pending *p) {
	progress w = {.sum = SET1(0), .sum2 = SET1(0), .next = p->tile, .end = p->tile};
	for (int i = 0; i < SIGNS_WORDS; i++) w.word[i] = (ivec){0};
	if (!p->tile) return w;
	w.end = p->tile + SLC_TILE;
	if (p->s) w.marks = (marks16 *)p->s->signs.marks;
	return w;
}

INLINE void advance_pending(const slc_tiles *t, const pending *p, progress *w, int vectors, const int brackets,
                            const int best, const int write) {
	if (write) {
		for (; vectors > 0 && w->next < w->end; vectors -= PER_ROW, w->next += SLC_PANEL)
			write_row(t, p->tile, (int)(w->next - p->tile) / SLC_PANEL, p->row, p->column);
		return;
	}
	for (; vectors > 0 && w->next < w->end; vectors--)
		count_signs(&p->s->signs, w, p->s->reach, p->s->l2, brackets, best);
}

INLINE void finish_pending(const slc_tiles *t, pending *p, progress *w, const int brackets, const int best,
                           const int write) {
	if (!p->tile) return;
	advance_pending(t, p, w, SLC_TILE, brackets, best, write);
	if (!write) {
		strip *s = p->s;
		slc_counter *c = t->count;
		add_signs(&s->signs, w, brackets);
		s->sum[0] = w->sum, s->sum2[0] = w->sum2;
		for (int i = 0; i < SLC_TILE / 64; i++) {
			uint64_t marks = s->signs.marks[i];
			if (s->keep) {
				append_marked(&c->kept, p->tile, marks, i, s->row, s->column);
				continue;
			}
			for (; marks && best; marks &= marks - 1) {
				const uint32_t at = (uint32_t)(64 * i + __builtin_ctzll(marks)), column = at % SLC_PANEL;
				consider(c, (float *)s->best + column, (float *)s->reach + column, p->tile[at],
				         (s->row + at / SLC_PANEL) << 16 | (s->column + column));
			}
		}
		end_tile(t, s, p->tile);
		if (p->last) end_strip(t, s);
	}
	p->tile = 0;
}
