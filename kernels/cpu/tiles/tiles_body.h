// The body of the tile kernels, compiled once per instruction set by tiles_<isa>.c (no include guard; scores_body.h
// says why it is a header), which defines
//   ISA                suffix of the names
//   W                  floats per vector register
//   vec, ivec, mask    W floats, W int32, W truth values
//   LOAD STORE STREAM SET1 MADD MAX SQRT   of vec (STREAM: aligned, around the caches; MAX: the second where the
//                      first is NaN)
//   GE(a,b) LE_AND(m,a,b) OR(m,n) BITS(m)  ordered comparisons: NaN is never true
//   COUNT(n,m)         n += 1 where m
//   WHERE(m,a)         a where m, else 0
// and optionally
//   APPEND(list, row, bits, at)   append the values of a row where a bit is set; it may write up to 16 entries behind
//                                 the last
//   POSITIONS                counts as tiles_pending_amx.h does
//   LEVELS                   together with the contents of tiles_levels_avx512.h
//
// A tile is a buffer of 32 x 32 floats, tile[row][column]. It is processed in two steps, which may overlap: its
// products are written there, and count_row or write_row processes it one row at a time.
#include <string.h>
#include "inline.h"
#include "tiles.h"

#define PER_ROW (SLC_PANEL / W) // vectors in a row of a tile

// A strip is the tiles of one panel of columns with a block of rows. It holds their counts until it ends.
typedef struct {
	ivec above[SLC_BRACKETS];
	vec sum[16 / W], sum2[16 / W]; // of a tile
} tally;

typedef struct {
	tally tally;
	vec best[PER_ROW], reach[PER_ROW]; // reach = best - margin
	uint32_t row, column;              // of the tile, relative to the call
	int keep;                          // whether lists have capacity for a whole tile
	int l2;                            // whether sums and bins use distances
#ifdef POSITIONS
	int32_t at[SLC_TILE + 16]; // positions in the tile of values to be kept
#endif
#ifdef LEVELS
	levels levels;
#endif
} strip;

// An int32 lane of a counter counts PER_ROW values of a row.
_Static_assert((int64_t)SLC_MAX_PANELS * SLC_PANEL * PER_ROW < INT32_MAX, "counters of a strip may overflow");

#ifndef REACH
#define REACH(best, margin) ((best) - SET1(margin))
#endif

#ifndef APPEND
// append writes three entries before it asks whether there are more: where a row has some at all, their number is
// unpredictable for a branch.
INLINE void append(slc_list *l, const float *row, uint32_t bits, uint32_t at) {
	slc_entry *to = l->entries + l->count;
	l->count += __builtin_popcount(bits);
	do {
#pragma GCC unroll 3
		for (int n = 0; n < 3; n++, bits &= bits - 1) {
			const uint32_t i = (uint32_t)__builtin_ctz(bits | 1u << (SLC_PANEL - 1)); // without a bit, the last
			*to++ = (slc_entry){row[i], at + i};
		}
	} while (__builtin_expect(bits != 0, 0));
}
#define APPEND append
#endif

// count_vector counts vector h of row i of a tile in n, and returns which of its values are to be kept. brackets < 0
// computes only the maximum; with nans, values that are excluded are NaN.
INLINE uint32_t count_vector(const slc_tiles *t, strip *s, tally *n, const float *tile, int i, const int h,
                             const int brackets, const int best, const int nans) {
	slc_counter *c = t->count;
	const float *p = tile + i * SLC_PANEL + h * W;
	vec v = LOAD(p);
	if (best) {
		mask m = GE(v, s->reach[h]);
		if (__builtin_expect(BITS(m) != 0, 0)) {
			const uint32_t at = (s->row + (uint32_t)i) << 16 | s->column;
			if (c->other.count + W + 16 <= c->other.capacity) // what APPEND may write
				APPEND(&c->other, p - h * W, BITS(m) << (h * W), at);
			else c->other.full = 1;
			s->best[h] = MAX(v, s->best[h]); // the second operand where v is NaN
			s->reach[h] = REACH(s->best[h], c->margin);
		}
	}
	if (brackets < 0) return 0;
	mask in = OR(GE(v, SET1(c->max)), GE(SET1(c->min), v));
#pragma GCC unroll 12
	for (int b = 0; b < brackets; b++) {
		mask m = GE(v, SET1(c->low[b]));
		COUNT(n->above[b], m);
		in = OR(in, LE_AND(m, v, SET1(c->high[b])));
	}
	vec x = nans ? WHERE(GE(v, v), v) : v;
	if (s->l2) x = SQRT(MAX(x * SET1(-2), SET1(0)));
	n->sum[h % (16 / W)] = n->sum[h % (16 / W)] + x;
	n->sum2[h % (16 / W)] = MADD(n->sum2[h % (16 / W)], x, x);
	return BITS(in) << (h * W);
}

// keep appends what count_vector found in a row.
INLINE void keep(const slc_tiles *t, const strip *s, const float *tile, int i, uint32_t bits) {
	if (bits && s->keep)
		APPEND(&t->count->kept, tile + i * SLC_PANEL, bits, (s->row + (uint32_t)i) << 16 | s->column);
}

// ROW defines a function that counts a row. A call is cheap compared with its work, and inlined copies would take most
// of the compile time.
#define ROW(name, brackets, best, nans) \
	OUTLINE void name(const slc_tiles *t, strip *s, const float *tile, int i) { \
		uint32_t in = 0; \
		_Pragma("GCC unroll 8") for (int h = 0; h < PER_ROW; h++) \
			in |= count_vector(t, s, &s->tally, tile, i, h, brackets, best, nans); \
		keep(t, s, tile, i, in); \
	}
ROW(row_of_sums, 0, 0, 0)
ROW(row_of_usual, 5, 1, 0)
ROW(row_of_all, SLC_BRACKETS, 1, 0)
ROW(row_without_best, SLC_BRACKETS, 0, 0)
ROW(excluding_sums, 0, 0, 1)
ROW(excluding_usual, 5, 0, 1)
ROW(excluding_all, SLC_BRACKETS, 0, 1)
ROW(excluding_best, -1, 1, 1)

// count_row counts row i of a tile. The constants must be a combination defined above: one used by VARIANTS or by
// count_excluding.
INLINE void count_row(const slc_tiles *t, strip *s, const float *tile, int i, const int brackets, const int best,
                      const int nans) {
	if (brackets < 0) excluding_best(t, s, tile, i);
	else if (nans && brackets == 0) excluding_sums(t, s, tile, i);
	else if (nans && brackets == 5) excluding_usual(t, s, tile, i);
	else if (nans) excluding_all(t, s, tile, i);
	else if (brackets == 0) row_of_sums(t, s, tile, i);
	else if (brackets == 5) row_of_usual(t, s, tile, i);
	else if (best) row_of_all(t, s, tile, i);
	else row_without_best(t, s, tile, i);
}

// histogram_of_row counts the values of a row of a tile in the histogram; with nans, only those that are not NaN.
OUTLINE void histogram_of_row(slc_counter *c, const float *row, const int nans) {
	float x[SLC_PANEL];
	int32_t bin[SLC_PANEL];
	for (int h = 0; h < PER_ROW; h++) {
		vec v = LOAD(row + h * W);
		if (c->l2) v = SQRT(MAX(v * SET1(-2), SET1(0)));
		STORE(x + h * W, MAX((v - SET1(c->bin_low)) * SET1(c->bin_scale), SET1(0))); // NaN becomes 0
	}
	const float last = c->last_bin;
	for (int i = 0; i < SLC_PANEL; i++) bin[i] = (int32_t)(x[i] < last ? x[i] : last);
	for (int i = 0; i < SLC_PANEL; i++) c->bins[bin[i]] += nans ? row[i] == row[i] : 1;
}

INLINE void add_to_histogram(slc_counter *c, const float *row, const int nans) {
	if (__builtin_expect(c->bins != 0, 0)) histogram_of_row(c, row, nans);
}

// add_sum adds the 16 sums of a tile, rounded to units of 2^-30, to a sum. One tile of values that a panel may hold has
// far less than 2^62 units; more, or a NaN, is an overflow.
INLINE void add_sum(slc_counter *c, __int128 *sum, const vec *lanes) {
	float f[16];
	double d[8];
	memcpy(f, lanes, sizeof f);
	for (int i = 0; i < 8; i++) d[i] = (double)f[i] + (double)f[i + 8];
	double units = __builtin_rint(((d[0] + d[1] + (d[2] + d[3])) + (d[4] + d[5] + (d[6] + d[7]))) * 0x1p30);
	int fits = __builtin_fabs(units) < 0x1p62;
	c->overflow |= !fits | __builtin_add_overflow(*sum, (__int128)(fits ? (int64_t)units : 0), sum);
}

INLINE void begin_tile(const slc_tiles *t, strip *s, int64_t row) {
	slc_counter *c = t->count;
	s->row = (uint32_t)((row - t->rows.from) * SLC_PANEL);
	for (int i = 0; i < 16 / W; i++) s->tally.sum[i] = s->tally.sum2[i] = SET1(0);
#ifdef LEVELS
	if (c->kept.count + SLC_TILE + 16 > c->kept.capacity) check_marked(c, &s->levels, s->best, s->reach, s->column);
#endif
	s->keep = c->kept.count + SLC_TILE + 16 <= c->kept.capacity && !c->kept.full;
	c->kept.full |= !s->keep && c->kept.capacity > 0;
}

INLINE void end_tile(const slc_tiles *t, const strip *s) {
	add_sum(t->count, &t->count->sum, s->tally.sum);
	add_sum(t->count, &t->count->sum2, s->tally.sum2);
}

INLINE void begin_strip(const slc_tiles *t, strip *s, int64_t column) {
	slc_counter *c = t->count;
	s->column = (uint32_t)((column - t->columns.from) * SLC_PANEL);
	s->l2 = c->l2;
	for (int b = 0; b < SLC_BRACKETS; b++) s->tally.above[b] = (ivec){0};
	for (int h = 0; h < PER_ROW && c->best; h++) {
		s->best[h] = LOAD(c->best_other + s->column + h * W);
		s->reach[h] = REACH(s->best[h], c->margin);
	}
#ifdef LEVELS
	begin_levels(&s->levels, c, s->reach);
#endif
}

INLINE void end_strip(const slc_tiles *t, strip *s) {
	slc_counter *c = t->count;
#ifdef LEVELS
	check_marked(c, &s->levels, s->best, s->reach, s->column);
	end_levels(c, &s->levels);
#endif
	for (int b = 0; b < c->brackets; b++) {
		int32_t n[W];
		memcpy(n, &s->tally.above[b], sizeof n);
		for (int i = 0; i < W; i++) c->above[b] += n[i];
	}
	for (int h = 0; h < PER_ROW && c->best; h++) {
		float *best = c->best_other + s->column + h * W; // another strip of these columns may have updated it
		STORE(best, MAX(s->best[h], LOAD(best)));
	}
}

// with_terms adds l2's halves of squared norms to the products.
INLINE void with_terms(const slc_tiles *t, float *tile, int64_t row, int64_t column) {
	if (!t->rows.terms) return;
	const float *r = t->rows.terms + row * SLC_PANEL, *l = t->columns.terms + column * SLC_PANEL;
	for (int i = 0; i < SLC_PANEL; i++)
		for (int h = 0; h < PER_ROW; h++) {
			float *p = tile + i * SLC_PANEL + h * W;
			STORE(p, LOAD(p) + (SET1(r[i]) + LOAD(l + h * W)));
		}
}

#include "tiles_excluded_body.h"
#include "tiles_write_body.h"

// VARIANTS calls f with the number of brackets as a constant: 5 is the default (5 %, quartiles, 95 %).
#define VARIANTS(f, t, ...) \
	do { \
		const int n_ = (t)->count->brackets, best_ = (t)->count->best; \
		if (n_ == 0 && !best_) f(t, 0, 0, ##__VA_ARGS__); \
		else if (n_ <= 5 && best_) f(t, 5, 1, ##__VA_ARGS__); \
		else if (best_) f(t, SLC_BRACKETS, 1, ##__VA_ARGS__); \
		else f(t, SLC_BRACKETS, 0, ##__VA_ARGS__); \
	} while (0)
