// Register blocks for instructions that add the products of two rows and two columns, eight bytes of each, to four
// sums: a row's two, then the other's. The layouts have two vectors' eight bytes side by side. Included by
// tiles_blocks_body.h; the file that includes that defines
//   FORMAT CHAIN WORDS(dim) TO_FLOATS(s), sums   as there
//   PARTS           1, or 2: a step has the high halves of a panel's vectors, then the low ones; low times low is left
//                   out
//   SQUARE(s,x,y)   s + the products of x, which holds two rows, and y, which holds two columns
enum { PAIRS = 4, NEXT = SLC_PANEL * 2 };

INLINE sums pair_at(const float *p) { return (sums)LOAD(p); }

INLINE void multiply_rows(const float *a, const float *b, int64_t steps, float *tile, int first, const float *next,
                          scale by, const int rows) {
	sums s[PAIRS][PAIRS];
	(void)rows;
#pragma GCC unroll 4
	for (int i = 0; i < PAIRS; i++)
#pragma GCC unroll 4
		for (int j = 0; j < PAIRS; j++) s[i][j] = (sums){0};
	for (int64_t k = 0; k < steps; k++, a += STEP_FLOATS, b += STEP_FLOATS) {
		sums y[PARTS][PAIRS];
		if (k % RARE == 0) __builtin_prefetch(next + k / RARE * LINE);
#pragma GCC unroll 8
		for (int j = 0; j < PARTS * PAIRS; j++)
			y[j / PAIRS][j % PAIRS] = pair_at(b + j / PAIRS * NEXT + j % PAIRS * 4);
#pragma GCC unroll 4
		for (int i = 0; i < PAIRS; i++) {
			const sums x = pair_at(a + i * 4);
#pragma GCC unroll 8
			for (int j = 0; j < PARTS * PAIRS; j++)
				s[i][j % PAIRS] = SQUARE(s[i][j % PAIRS], x, y[j / PAIRS][j % PAIRS]);
			if (PARTS == 1) continue;
			const sums low = pair_at(a + NEXT + i * 4);
#pragma GCC unroll 4
			for (int j = 0; j < PAIRS; j++) s[i][j] = SQUARE(s[i][j], low, y[0][j]);
		}
	}
#pragma GCC unroll 4
	for (int i = 0; i < PAIRS; i++)
#pragma GCC unroll 4
		for (int j = 0; j < PAIRS; j += 2) {
			const int64x2_t p = (int64x2_t)s[i][j], q = (int64x2_t)s[i][j + 1];
			float *to = tile + 2 * i * SLC_PANEL + 2 * j;
			add_chain(to, (sums)vzip1q_s64(p, q), first, by, 2 * i, 2 * j);
			add_chain(to + SLC_PANEL, (sums)vzip2q_s64(p, q), first, by, 2 * i + 1, 2 * j);
		}
}
