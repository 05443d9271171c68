// Counting by levels, for AVX-512 kernels that count one tile while they multiply the next.
//
// On AMD's cores instructions that write a mask register, and vector stores, take the ports of the multiply-adds;
// additions, minima and shifts do not. So a row of a tile is first converted to levels, 15-bit integers that grow with
// the values, 32 per vector; the sign of the difference from a limit's level counts a value. Values that may have to be
// kept, and values on the level of a limit, which levels cannot decide, are marked, one bit each. Marked values are
// appended, and compared exactly at the end of the strip. Values are never NaN here.
#include <string.h>
#include "tiles_avx512.h"

#define LEVELS
enum { LEVEL_MAX = (1 << 14) - 1, LEVELS_TILES = 512 }; // tiles whose counts fit into 16 bits: 32 rows each

// Conversion of values to levels: values within +-top have levels within +-LEVEL_MAX, whose differences have 16 bits.
typedef struct {
	vec top, magic;
} scaling;

// A strip's state in memory. Vectors of limits have the same level in all lanes.
typedef struct {
	scaling scaling;
	ivec low[SLC_BRACKETS], width[SLC_BRACKETS], max, above_min, reach;
	vec lows;                        // a lane each
	ivec of_lows;                    // their wide levels
	uint32_t marks[SLC_PANEL];       // a bit per value of a row
	ivec below[SLC_BRACKETS];        // int16 lanes, of less than LEVELS_TILES tiles
	int64_t total[SLC_BRACKETS];     // below by level
	int64_t misplaced[SLC_BRACKETS]; // values below the limit, but on its level
	int64_t tiles, counted;          // in below, in total
	int64_t unchecked;               // kept entries from here on are marked, but not compared
	int fresh;                       // whether no tile of the strip has raised reach yet
} levels;

// A tile's state in registers.
typedef struct {
	ivec below[SLC_BRACKETS];
	vec sum, sum2;
	const float *next, *end; // rows
	uint32_t *marks;
} progress;

// A value plus `magic` has its level, its product with the unit rounded to an integer, in its lowest bits. Limits and
// values are converted in the same way, so their order is preserved; values out of range get the last level.
INLINE ivec wide_levels(vec v, const scaling *s) {
	return (ivec)(_mm512_max_ps(_mm512_min_ps(v, s->top), SET1(0) - s->top) + s->magic);
}
// levels_of a row has columns 0 and 16, 1 and 17, and so on: column_of_mark.
INLINE ivec levels_of(vec first, vec second, const scaling *s) {
	const ivec high = _mm512_slli_epi32(wide_levels(second, s), 16);
	// a ? b : c
	return _mm512_ternarylogic_epi32(_mm512_set1_epi32(0xffff), wide_levels(first, s), high, 0xca);
}
INLINE uint32_t column_of_mark(uint32_t bit) { return bit >> 1 | (bit & 1) << 4; }

INLINE ivec level_of(float limit, const scaling *s) { return levels_of(SET1(limit), SET1(limit), s); }

// scaling_for returns the power of two that spreads the limits over all levels.
static scaling scaling_for(const slc_counter *c) {
	float top = 0;
	for (int b = -2; b < c->brackets; b++) {
		const float limit = __builtin_fabsf(b == -2 ? c->max : b == -1 ? c->min : c->low[b]);
		if (limit < 0x1p100f && limit > top) top = limit;
	}
	float unit = 0x1p14f;
	for (; top * unit > LEVEL_MAX - 1; unit /= 2) {}
	for (; unit < 0x1p60f && top > 0 && 2 * top * unit <= LEVEL_MAX - 1; unit *= 2) {}
	return (scaling){SET1(LEVEL_MAX / unit), SET1(0x1.8p23f / unit)};
}

INLINE void place_reach(levels *g, const vec *reach) { g->reach = levels_of(reach[0], reach[1], &g->scaling); }

static void begin_levels(levels *g, const slc_counter *c, const vec *reach) {
	float low[16];
	for (int i = 0; i < 16; i++) low[i] = i < c->brackets ? c->low[i] : __builtin_inff();
	g->scaling = scaling_for(c);
	g->lows = LOAD(low);
	g->of_lows = wide_levels(g->lows, &g->scaling);
	for (int b = 0; b < SLC_BRACKETS; b++) {
		const float high = b < c->brackets ? c->high[b] : -__builtin_inff();
		g->low[b] = level_of(low[b], &g->scaling);
		const ivec width = _mm512_sub_epi16(level_of(high, &g->scaling), g->low[b]);
		g->width[b] = _mm512_max_epi16(width, _mm512_setzero_si512());
		g->below[b] = _mm512_setzero_si512();
		g->total[b] = 0;
	}
	g->max = level_of(c->max, &g->scaling);
	g->above_min = _mm512_add_epi16(level_of(c->min, &g->scaling), _mm512_set1_epi16(1));
	memset(g->misplaced, 0, sizeof g->misplaced);
	g->tiles = g->counted = 0;
	g->unchecked = c->kept.count;
	g->fresh = c->best;
	if (c->best) place_reach(g, reach);
}

// raise_reach raises a strip's maxima, and what may be near them, to those of its first tile. check_marked, which also
// raises them, runs at the end of the strip: until then, all values of a query without a maximum would be marked.
static void raise_reach(levels *g, const float *tile, float margin, vec *best, vec *reach) {
	vec most[2] = {best[0], best[1]};
	for (int i = 0; i < SLC_TILE; i += SLC_PANEL) {
		most[0] = MAX(LOAD(tile + i), most[0]);
		most[1] = MAX(LOAD(tile + i + W), most[1]);
	}
	for (int h = 0; h < 2; h++) {
		best[h] = most[h];
		reach[h] = most[h] - SET1(margin);
	}
	place_reach(g, reach);
	g->fresh = 0;
}

// count_levels counts the next row of a tile.
INLINE void count_levels(levels *g, progress *w, const int l2, const int brackets, const int best) {
	// Limits are loaded here: gcc would copy them to the stack before each iteration.
	__asm__("" : "+r"(g));
	vec v[2] = {LOAD(w->next), LOAD(w->next + W)};
	const ivec x = levels_of(v[0], v[1], &g->scaling);
	// The sign stays set if nothing is to be kept: x < max, x >= above_min, x < reach.
	// a & ~b & c
	ivec nearest = _mm512_ternarylogic_epi32(_mm512_sub_epi16(x, g->max), _mm512_sub_epi16(x, g->above_min),
		_mm512_set1_epi16(INT16_MIN), 0x20);
	if (best) nearest = _mm512_and_si512(nearest, _mm512_sub_epi16(x, g->reach));
	// how far the value lies above the nearest bracket; below one, the difference is a large unsigned number
#pragma GCC unroll 12
	for (int b = 0; b < brackets; b++) {
		const ivec d = _mm512_sub_epi16(x, g->low[b]);
		nearest = _mm512_min_epu16(nearest, _mm512_subs_epu16(d, g->width[b]));
		w->below[b] = _mm512_sub_epi16(w->below[b], _mm512_srai_epi16(d, 15));
	}
	*w->marks++ = _mm512_testn_epi16_mask(nearest, nearest);
#pragma GCC unroll 2
	for (int h = 0; h < 2; h++) {
		if (l2) v[h] = SQRT(MAX(v[h] * SET1(-2), SET1(0)));
		w->sum += v[h];
		w->sum2 = MADD(w->sum2, v[h], v[h]);
	}
	w->next += SLC_PANEL;
}

// sum_levels adds the 16-bit counts to the strip's totals.
static void sum_levels(levels *g) {
	const ivec ones = _mm512_set1_epi16(1);
	for (int b = 0; b < SLC_BRACKETS; b++) {
		g->total[b] += _mm512_reduce_add_epi32(_mm512_madd_epi16(g->below[b], ones));
		g->below[b] = _mm512_setzero_si512();
	}
	g->counted += g->tiles;
	g->tiles = 0;
}

// add_levels adds the counts of a tile to those of the strip.
INLINE void add_levels(levels *g, const progress *w, const int brackets) {
#pragma GCC unroll 12
	for (int b = 0; b < brackets; b++) g->below[b] = _mm512_add_epi16(g->below[b], w->below[b]);
	if (++g->tiles == LEVELS_TILES) sum_levels(g);
}

// append_marked appends the marked values of a tile. Many rows have none; how many the others have is unpredictable for
// a branch.
INLINE void append_marked(slc_list *l, const float *tile, const uint32_t *marks, uint32_t row, uint32_t column) {
	uint32_t rows[SLC_PANEL + 16], bits[SLC_PANEL + 16];
	slc_entry *to = l->entries + l->count;
	int n = 0;
#pragma GCC unroll 2
	for (int i = 0; i < SLC_PANEL; i += 16) {
		const ivec m = _mm512_loadu_si512(marks + i), at = _mm512_add_epi32(COUNT_UP, _mm512_set1_epi32(i));
		const mask any = _mm512_test_epi32_mask(m, m);
		_mm512_storeu_si512(bits + n, _mm512_maskz_compress_epi32(any, m));
		_mm512_storeu_si512(rows + n, _mm512_maskz_compress_epi32(any, at));
		n += __builtin_popcount(any);
	}
	for (int i = 0; i < n; i++) {
		const float *from = tile + rows[i] * SLC_PANEL;
		const uint32_t at = (row + rows[i]) << 16 | column;
		to = put_compressed(to, from, _pext_u32(bits[i], 0x55555555), at);
		to = put_compressed(to, from + W, _pext_u32(bits[i], 0xaaaaaaaa), at + W);
	}
	l->count = to - l->entries;
}

// consider adds a value to a column's candidates if it may be the maximum. best and reach belong to the strip.
INLINE void consider(slc_counter *c, float *best, float *reach, float value, uint32_t at) {
	if (__builtin_expect(value < *reach, 1)) return;
	if (c->other.count < c->other.capacity) c->other.entries[c->other.count++] = (slc_entry){value, at};
	else c->other.full = 1;
	if (value > *best) *best = value, *reach = value - c->margin;
}

// count_misplaced corrects the counts for a marked value.
INLINE void count_misplaced(levels *g, float value) {
	const vec v = SET1(value);
	const uint32_t above = _mm512_cmpge_epi32_mask(wide_levels(v, &g->scaling), g->of_lows);
	// The last mask also guards against gcc 12: under sanitizers it was seen to count beyond the 16 lanes without it.
	uint32_t on = above & ~BITS(GE(v, g->lows)) & ((1u << SLC_BRACKETS) - 1);
	for (; on; on &= on - 1) g->misplaced[__builtin_ctz(on)]++;
}

// check_marked corrects the counts for the marked entries, takes candidates for the maximum from them, and keeps those
// that are requested.
static void check_marked(slc_counter *c, levels *g, vec *best, vec *reach, uint32_t column) {
	slc_entry *from = c->kept.entries + g->unchecked, *end = c->kept.entries + c->kept.count, *to = from;
	const ivec values = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
	const float nearest = c->best ? _mm512_reduce_min_ps(_mm512_min_ps(reach[0], reach[1])) : 0;
	for (; from < end; from += 16) {
		const uint32_t used = end - from < 16 ? (1u << (end - from)) - 1 : 0xffff;
		const ivec first = _mm512_loadu_si512(from), second = _mm512_loadu_si512(from + 8); // the list has room
		const vec v = (vec)_mm512_permutex2var_epi32(first, values, second);
		for (uint32_t m = c->best ? used & BITS(GE(v, SET1(nearest))) : 0; m; m &= m - 1) {
			const slc_entry e = from[__builtin_ctz(m)];
			const uint32_t i = (e.at & 0xffff) - column;
			consider(c, (float *)best + i, (float *)reach + i, e.value, e.at);
		}
		const ivec level = wide_levels(v, &g->scaling);
		mask in = OR(GE(v, SET1(c->max)), GE(SET1(c->min), v));
		for (int b = 0; b < c->brackets; b++) {
			const mask above = GE(v, SET1(c->low[b]));
			const ivec limit = wide_levels(SET1(c->low[b]), &g->scaling);
			in = OR(in, LE_AND(above, v, SET1(c->high[b])));
			g->misplaced[b] += __builtin_popcount(used & ~BITS(above) & _mm512_cmpge_epi32_mask(level, limit));
		}
		in &= used;
		_mm512_storeu_si512(to, _mm512_maskz_compress_epi64((__mmask8)in, first));
		to += __builtin_popcount(in & 0xff);
		_mm512_storeu_si512(to, _mm512_maskz_compress_epi64((__mmask8)(in >> 8), second));
		to += __builtin_popcount(in >> 8);
	}
	c->kept.count = g->unchecked = to - c->kept.entries;
	if (c->best) place_reach(g, reach);
}

static void end_levels(slc_counter *c, levels *g) {
	sum_levels(g);
	for (int b = 0; b < c->brackets; b++) c->above[b] += g->counted * SLC_TILE - g->total[b] - g->misplaced[b];
}
