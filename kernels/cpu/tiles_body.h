// The body of the tile kernels, compiled once per instruction set by tiles_<isa>.c (no include guard;
// see scores_body.h for why it is a header), which defines
//   ISA                suffix of the names
//   W                  floats per vector register
//   MICRO_V, MICRO_R   a register block of f32 products: MICRO_V vectors of lanes x MICRO_R rows
//   vec, ivec, mask    W floats, W int32, W truth values
//   LOAD STORE STREAM SET1 MADD MAX SQRT     of vec (STREAM: aligned, around the caches; MAX: the second where the first is NaN)
//   GE(a,b) LE_AND(m,a,b) OR(m,n) BITS(m)    ordered comparisons: NaN is never true
//   COUNT(n,m)         n += 1 where m
//   WHERE(m,a)         a where m, else 0
// and, where it has something better, PUSH(list, p, m, at): append the values of p where m; it may
// write up to 16 entries behind the last; or NOTES, with note and take_noted.
//
// A tile is finished in two steps: its products go to a buffer of 32 x 32 floats, tile[row][lane], and
// consume_row or put_row takes a row at a time: the AMX loop calls them between its instructions.
#include <string.h>
#include "tiles.h"

#define PASTE2(a, b) a##b
#define PASTE(a, b) PASTE2(a, b)
#define INLINE static inline __attribute__((always_inline))
#define PER_ROW (SLC_PANEL / W)         // vectors in a row of a tile
#define KBLOCK 64                      // products in one float32 chain; cpu.Bound counts on it

// A sweep counts each pair of a call's rows and one panel of lanes once: an int32 lane holds PER_ROW counts a row.
_Static_assert((int64_t)SLC_MAX_PANELS * SLC_PANEL * PER_ROW < INT32_MAX, "counters of a sweep may overflow");

// What a sweep keeps in registers while it goes down the rows of one panel of lanes.
typedef struct {
	ivec above[SLC_BRACKETS];
	vec sum[16 / W], sum2[16 / W];
	vec best[PER_ROW], reach[PER_ROW]; // reach = best - margin
	uint32_t row, lane;                // of the tile, relative to the call
	int keep;                          // there is room
	int l2;                            // sums and bins are of distances
#ifdef NOTES
	noted kept; // of this tile
#endif
} sweep;

#ifndef PUSH
// push appends the lanes of bits, in order.
INLINE void push_bits(slc_list *l, const float *v, uint32_t bits, uint32_t at) {
	for (; bits; bits &= bits - 1) {
		int i = __builtin_ctz(bits);
		l->at[l->used++] = (slc_entry){v[i], at + (uint32_t)i};
	}
}
#define PUSH(l, v, m, at) push_bits(l, v, BITS(m), at)
#endif

// consume counts vector h of row i of a tile. brackets < 0 leaves all but the maximum.
INLINE void consume(const slc_tiles *t, sweep *s, const float *tile, int i, const int h, const int brackets, const int best, const int masked) {
	slc_counter *c = t->count;
	const float *p = tile + i * SLC_PANEL + h * W;
	const uint32_t at = (s->row + (uint32_t)i) << 16 | (s->lane + (uint32_t)(h * W));
	vec v = LOAD(p);
	if (brackets >= 0) {
		mask in = OR(GE(v, SET1(c->max)), GE(SET1(c->min), v));
#pragma GCC unroll 12
		for (int b = 0; b < brackets; b++) {
			mask m = GE(v, SET1(c->low[b]));
			COUNT(s->above[b], m);
			in = OR(in, LE_AND(m, v, SET1(c->high[b])));
		}
#ifdef NOTES
		if (brackets > 0) note(&s->kept, in, i * SLC_PANEL + h * W);
		else // few
#endif
		if (__builtin_expect(BITS(in) != 0, 0) && s->keep) PUSH(&c->kept, p, in, at);
	}
	if (brackets >= 0) {
		vec x = masked ? WHERE(GE(v, v), v) : v;
		if (s->l2) x = SQRT(MAX(x * SET1(-2), SET1(0)));
		s->sum[h % (16 / W)] = s->sum[h % (16 / W)] + x;
		s->sum2[h % (16 / W)] = MADD(s->sum2[h % (16 / W)], x, x);
	}
	if (best) {
		mask m = GE(v, s->reach[h]);
		if (__builtin_expect(BITS(m) != 0, 0)) {
			if (c->other.used + 16 <= c->other.room) PUSH(&c->other, p, m, at);
			else c->other.full = 1;
			s->best[h] = MAX(v, s->best[h]); // the second operand where v is NaN
			s->reach[h] = s->best[h] - SET1(c->margin);
		}
	}
}

INLINE void consume_row(const slc_tiles *t, sweep *s, const float *tile, int i, const int brackets, const int best, const int masked) {
#pragma GCC unroll 8
	for (int h = 0; h < PER_ROW; h++) consume(t, s, tile, i, h, brackets, best, masked);
}

// binned adds a tile to the histogram.
INLINE void binned(slc_counter *c, const float *tile) {
	if (!c->bins) return;
	for (int i = 0; i < SLC_TILE; i++) {
		float v = tile[i];
		if (v != v) continue;
		if (c->l2) v = v < 0 ? __builtin_sqrtf(-2 * v) : 0;
		float x = (v - c->bin_low) * c->bin_scale;
		int64_t b = x > 0 ? x < (float)c->n_bins ? (int64_t)x : c->n_bins - 1 : 0;
		c->bins[b < c->n_bins ? b : c->n_bins - 1]++;
	}
}

// add_sum adds a tile's lane sums, rounded to units of 2^-30, to a sum. One tile of values that a panel may hold has
// far less than 2^62 units; more, or a NaN, is an overflow.
INLINE void add_sum(slc_counter *c, __int128 *sum, const vec *lanes) {
	float f[16];
	memcpy(f, lanes, sizeof f);
	double a = 0, b = 0;
	for (int i = 0; i < 8; i++) a += (double)f[i], b += (double)f[i + 8];
	double units = __builtin_rint((a + b) * 0x1p30);
	int fits = __builtin_fabs(units) < 0x1p62;
	c->overflow |= !fits | __builtin_add_overflow(*sum, (__int128)(fits ? (int64_t)units : 0), sum);
}

INLINE void begin_tile(const slc_tiles *t, sweep *s, int64_t row) {
	slc_counter *c = t->count;
	s->row = (uint32_t)((row - t->rows.from) * SLC_PANEL);
	for (int i = 0; i < 16 / W; i++) s->sum[i] = s->sum2[i] = SET1(0);
	s->keep = c->kept.used + SLC_TILE + 16 <= c->kept.room && !c->kept.full;
	c->kept.full |= !s->keep && c->kept.room > 0;
}

INLINE void end_tile(const slc_tiles *t, sweep *s, const float *tile) {
#ifdef NOTES
	if (s->keep) take_noted(&t->count->kept, &s->kept, tile, s->row, s->lane);
	s->kept.n = 0;
#endif
	(void)tile;
	add_sum(t->count, &t->count->sum, s->sum);
	add_sum(t->count, &t->count->sum2, s->sum2);
}

// with_terms adds what is not a product: l2's halves of squared norms, i8's steps.
INLINE void with_terms(const slc_tiles *t, float *tile, int64_t row, int64_t lane) {
	if (!t->rows.terms) return;
	const float *r = t->rows.terms + row * SLC_PANEL, *l = t->lanes.terms + lane * SLC_PANEL;
	for (int i = 0; i < SLC_PANEL; i++)
		for (int h = 0; h < PER_ROW; h++) {
			float *p = tile + i * SLC_PANEL + h * W;
			STORE(p, LOAD(p) + (SET1(r[i]) + LOAD(l + h * W)));
		}
}

// Which pairs of a tile are excluded: padding and, by kind, own or near pairs.
enum { PADDING, OWN, NEAR };

static void blank(const slc_tiles *t, float *to, const float *from, int64_t row, int64_t lane, int kind) {
	const slc_counter *c = t->count;
	const float nan = __builtin_nanf("");
	const int64_t r0 = row * SLC_PANEL, l0 = lane * SLC_PANEL;
	for (int i = 0; i < SLC_PANEL; i++)
		for (int j = 0; j < SLC_PANEL; j++) {
			int64_t r = r0 + i, l = l0 + j;
			int out = r >= t->rows.n || l >= t->lanes.n;
			if (!out && kind != PADDING) out = c->own[l] == r;
			if (!out && kind == NEAR && c->row_group) out = c->row_group[r] == c->lane_group[l];
			to[i * SLC_PANEL + j] = out ? nan : from[i * SLC_PANEL + j];
		}
}

// best_of_all keeps candidates for the maximum that includes near pairs.
static void best_of_all(slc_counter *c, const float *tile, uint32_t row, uint32_t lane) {
	float *best = c->best_all + lane;
	for (int i = 0; i < SLC_PANEL; i++)
		for (int j = 0; j < SLC_PANEL; j++) {
			float v = tile[i * SLC_PANEL + j];
			if (!(v >= best[j] - c->margin)) continue;
			if (c->all.used < c->all.room)
				c->all.at[c->all.used++] = (slc_entry){v, (row + (uint32_t)i) << 16 | (lane + (uint32_t)j)};
			else
				c->all.full = 1;
			if (v > best[j]) best[j] = v;
		}
}

// special consumes a tile that holds padding, own or near pairs.
INLINE void special(const slc_tiles *t, sweep *s, const float *tile, int64_t row, int64_t lane, const int brackets) {
	slc_counter *c = t->count;
	float copy[SLC_TILE] __attribute__((aligned(64)));
	if (c->best) {
		blank(t, copy, tile, row, lane, PADDING);
		best_of_all(c, copy, s->row, s->lane);
	}
	blank(t, copy, tile, row, lane, c->cross_group ? NEAR : OWN);
	for (int i = 0; i < SLC_PANEL; i++) consume_row(t, s, copy, i, brackets, 0, 1);
	for (int i = 0; i < SLC_TILE; i++) c->counted += copy[i] == copy[i];
	binned(c, copy);
	if (!c->best) return;
	blank(t, copy, tile, row, lane, NEAR);
	for (int i = 0; i < SLC_PANEL; i++) consume_row(t, s, copy, i, -1, 1, 1);
}

// is_special tells whether a tile may hold excluded pairs.
typedef struct {
	int32_t own_low, own_high, group_low, group_high;
	int partial;
} lane_facts;

INLINE lane_facts facts_of(const slc_tiles *t, int64_t lane) {
	const slc_counter *c = t->count;
	int64_t from = lane * SLC_PANEL, to = from + SLC_PANEL;
	lane_facts f = {INT32_MAX, -1, INT32_MAX, INT32_MIN, to > t->lanes.n};
	if (f.partial) to = t->lanes.n;
	for (int64_t l = from; l < to; l++) {
		if (c->own[l] >= 0 && c->own[l] < f.own_low) f.own_low = c->own[l];
		if (c->own[l] > f.own_high) f.own_high = c->own[l];
		if (!c->row_group) continue;
		if (c->lane_group[l] < f.group_low) f.group_low = c->lane_group[l];
		if (c->lane_group[l] > f.group_high) f.group_high = c->lane_group[l];
	}
	return f;
}

INLINE int is_special(const slc_tiles *t, const lane_facts *f, int64_t row) {
	const slc_counter *c = t->count;
	int64_t from = row * SLC_PANEL, to = from + SLC_PANEL;
	if (f->partial || to > t->rows.n) return 1;
	if (f->own_high >= from && f->own_low < to) return 1;
	if (!c->row_group) return 0;
	int hit = 0;
	for (int64_t r = from; r < to; r++) hit |= c->row_group[r] >= f->group_low && c->row_group[r] <= f->group_high;
	return hit;
}

INLINE void begin_sweep(const slc_tiles *t, sweep *s, int64_t lane) {
	slc_counter *c = t->count;
	s->lane = (uint32_t)((lane - t->lanes.from) * SLC_PANEL);
	s->l2 = c->l2;
#ifdef NOTES
	s->kept.n = 0;
#endif
	for (int b = 0; b < SLC_BRACKETS; b++) s->above[b] = (ivec){0};
	for (int h = 0; h < PER_ROW && c->best; h++) {
		s->best[h] = LOAD(c->best_other + s->lane + h * W);
		s->reach[h] = s->best[h] - SET1(c->margin);
	}
}

INLINE void end_sweep(const slc_tiles *t, sweep *s) {
	slc_counter *c = t->count;
	for (int b = 0; b < c->brackets; b++) {
		int32_t n[W];
		memcpy(n, &s->above[b], sizeof n);
		for (int i = 0; i < W; i++) c->above[b] += n[i];
	}
	for (int h = 0; h < PER_ROW && c->best; h++) STORE(c->best_other + s->lane + h * W, s->best[h]);
}

// place is where the matrix holds a tile's first value.
INLINE float *place(const slc_tiles *t, int64_t row, int64_t lane) {
	return t->write->out + (row - t->rows.from) * SLC_PANEL * t->write->stride + (lane - t->lanes.from) * SLC_PANEL;
}

// put_row writes row i of a tile as scores; all rows and lanes of the tile exist.
INLINE void put_row(const slc_tiles *t, const float *tile, int i, int64_t row, int64_t lane) {
	const slc_writer *w = t->write;
	float *to = place(t, row, lane) + i * w->stride;
#pragma GCC unroll 8
	for (int h = 0; h < PER_ROW; h++) {
		vec v = LOAD(tile + i * SLC_PANEL + h * W);
		if (w->l2) v = SQRT(MAX(v * SET1(-2), SET1(0)));
		v = v * SET1(w->factor);
		if (w->stream) STREAM(to + h * W, v);
		else STORE(to + h * W, v);
	}
}

// pending is a tile whose products are complete: its rows from `at` on are still to be counted, or to be written.
typedef struct {
	const float *tile;
	int64_t row, lane;
	int at;
	sweep *s; // NULL: to be written
} pending;

INLINE void take_rows(const slc_tiles *t, pending *p, int n, const int brackets, const int best, const int write) {
	for (; n > 0 && p->at < SLC_PANEL; n--, p->at++) {
		if (write) put_row(t, p->tile, p->at, p->row, p->lane);
		else consume_row(t, p->s, p->tile, p->at, brackets, best, 0);
	}
}

// put_some writes what exists of a tile at the edge.
static void put_some(const slc_tiles *t, const float *tile, int64_t row, int64_t lane) {
	const slc_writer *w = t->write;
	float *to = place(t, row, lane);
	for (int i = 0; i < SLC_PANEL && row * SLC_PANEL + i < t->rows.n; i++)
		for (int j = 0; j < SLC_PANEL && lane * SLC_PANEL + j < t->lanes.n; j++) {
			float v = tile[i * SLC_PANEL + j];
			if (w->l2) v = v < 0 ? __builtin_sqrtf(-2 * v) : 0;
			to[i * w->stride + j] = v * w->factor;
		}
}

INLINE int whole(const slc_tiles *t, int64_t row, int64_t lane) {
	return (row + 1) * SLC_PANEL <= t->rows.n && (lane + 1) * SLC_PANEL <= t->lanes.n;
}

// VARIANTS calls f with the number of brackets as a constant: 5 are the usual table's (5 %, quartiles, 95 %).
#define VARIANTS(f, t, ...) \
	do { \
		const int n_ = (t)->count->brackets, best_ = (t)->count->best; \
		if (n_ == 0 && !best_) f(t, 0, 0, ##__VA_ARGS__); \
		else if (n_ <= 5 && best_) f(t, 5, 1, ##__VA_ARGS__); \
		else if (best_) f(t, SLC_BRACKETS, 1, ##__VA_ARGS__); \
		else f(t, SLC_BRACKETS, 0, ##__VA_ARGS__); \
	} while (0)
