// to_floats converts the integer sums of i8 codes to values.
INLINE void to_floats(const slc_tiles *t, float *tile, int64_t row, int64_t column) {
	const float *r = t->rows.steps + row * SLC_PANEL, *l = t->columns.steps + column * SLC_PANEL;
	const int32_t *sums = t->columns.sums + column * SLC_PANEL;
	for (int i = 0; i < SLC_PANEL; i++)
		for (int h = 0; h < PER_ROW; h++) {
			float *p = tile + i * SLC_PANEL + h * W;
			ivec n = _mm512_sub_epi32(_mm512_loadu_si512(p), _mm512_loadu_si512(sums + h * W));
			STORE(p, _mm512_cvtepi32_ps(n) * LOAD(l + h * W) * SET1(r[i]));
		}
}
