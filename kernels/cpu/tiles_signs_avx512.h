// Counting by the signs of differences, for AVX-512 kernels that count one tile while they multiply the next.
//
// On AMD's cores instructions that write a mask register, and stores of a vector, take the ports of the multiply-adds;
// subtractions, minima and shifts do not, and are free beside them. So a value's place among the brackets comes from
// the sign bits of value - low; 5 brackets have 6 bits each of one counter. Four vectors' values that may have to be
// kept make a word of 64 bits; what it names is appended without a branch that depends on the data, and compared
// exactly at the end of the strip. Values are never NaN here.
#include <string.h>
#include "tiles_avx512.h"

#define SIGNS
#define REACH(best, margin) signed_lows((best) - SET1(margin))
typedef uint16_t marks16 __attribute__((may_alias)); // of a vector, in a word of four
enum { SIGNS_PER_WORD = 5, SIGNS_WORDS = (SLC_BRACKETS + 4) / 5, SIGNS_BITS = 6 };

// What a strip has in memory.
typedef struct {
	// values may be kept if within width above a low, >= max or < above_min
	float low[SLC_BRACKETS], max, above_min, width;
	float ends[2][16];                              // closed ranges that are kept: all low ends, all high ends
	uint64_t marks[SLC_TILE / 64];                  // a bit per value of a tile
	ivec half[SIGNS_WORDS];                         // counts of the first half of a tile
	ivec below[SLC_BRACKETS];
	int64_t tiles;     // counted in below
	int64_t unchecked; // entries of the kept list from here on are marked, but not compared
} signs;

// What a tile has in registers. Its counts fill up every 63 vectors.
typedef struct {
	ivec word[SIGNS_WORDS];
	vec sum, sum2;
	const float *next, *end; // vectors
	marks16 *marks;
} progress;

// Where low is 0, -0 takes its place: v - low is then +0 for both zeros, as v >= low demands.
INLINE float signed_low(float low) { return low == 0 ? -0.0f : low; }
INLINE vec signed_lows(vec low) {
	return _mm512_mask_mov_ps(low, _mm512_cmp_ps_mask(low, SET1(0), _CMP_EQ_OQ), SET1(-0.0f));
}

static float next_float(float x) {
	int32_t bits;
	if (!(x < __builtin_inff())) return x;
	if (x == 0) return 0x1p-149f;
	memcpy(&bits, &x, sizeof bits);
	bits += x > 0 ? 1 : -1;
	memcpy(&x, &bits, sizeof x);
	return x;
}

static void begin_signs(signs *g, const slc_counter *c) {
	g->width = 0;
	for (int b = 0; b < 16; b++) g->ends[0][b] = __builtin_inff(), g->ends[1][b] = -__builtin_inff();
	for (int b = 0; b < SLC_BRACKETS; b++) {
		g->low[b] = signed_low(c->low[b]);
		g->ends[0][b] = c->low[b], g->ends[1][b] = c->high[b];
		g->below[b] = (ivec){0};
		if (b < c->brackets && c->high[b] - c->low[b] > g->width) g->width = c->high[b] - c->low[b];
	}
	g->max = signed_low(c->max), g->above_min = next_float(c->min);
	g->ends[0][SLC_BRACKETS] = c->max, g->ends[1][SLC_BRACKETS] = __builtin_inff();
	g->ends[0][SLC_BRACKETS + 1] = -__builtin_inff(), g->ends[1][SLC_BRACKETS + 1] = c->min;
	g->tiles = 0;
	g->unchecked = c->kept.count;
}

// sign_bit is the sign of difference b of a word, in the lowest of the word's bits for b.
INLINE ivec sign_bit(ivec difference, const int b) {
	return _mm512_srli_epi32(difference, 31 - SIGNS_BITS * (b % SIGNS_PER_WORD));
}

// count_signs counts the next vector of a tile.
INLINE void count_signs(signs *g, progress *w, const vec *reach, const int l2, const int brackets, const int best) {
	const ivec sign = _mm512_set1_epi32(INT32_MIN);
	vec v = LOAD(w->next), x = v;
	// The sign stays where nothing is to be kept: v < max, v >= above_min, v < reach.
	// a & ~b & c
	ivec outside = _mm512_ternarylogic_epi32((ivec)(v - SET1(g->max)), (ivec)(v - SET1(g->above_min)), sign, 0x20);
	if (best) outside = _mm512_and_si512(outside, (ivec)(v - reach[(w->end - w->next) / W & 1]));
	// the smallest difference, negative ones being the largest, as unsigned numbers
	ivec nearest = outside, bits = sign;
#pragma GCC unroll 12
	for (int b = 0; b < brackets; b++) {
		ivec d = (ivec)(v - SET1(g->low[b]));
		const int first = b % SIGNS_PER_WORD == 0, last = b % SIGNS_PER_WORD == SIGNS_PER_WORD - 1 || b == brackets - 1;
		const ivec one = _mm512_set1_epi32(1 << SIGNS_BITS * (b % SIGNS_PER_WORD));
		nearest = _mm512_min_epu32(nearest, d);
		bits = first ? sign_bit(d, b) : _mm512_ternarylogic_epi32(bits, sign_bit(d, b), one, 0xf8); // a | (b & c)
		if (last) w->word[b / SIGNS_PER_WORD] = _mm512_add_epi32(w->word[b / SIGNS_PER_WORD], bits);
	}
	*w->marks++ = _mm512_cmple_epu32_mask(nearest, (ivec)SET1(g->width));
	if (l2) x = SQRT(MAX(x * SET1(-2), SET1(0)));
	w->sum += x;
	w->sum2 = MADD(w->sum2, x, x);
	w->next += W;
	if (w->next != w->end - SLC_TILE / 2) return;
#pragma GCC unroll 3
	for (int i = 0; i < (brackets + SIGNS_PER_WORD - 1) / SIGNS_PER_WORD; i++) g->half[i] = w->word[i],
		w->word[i] = (ivec){0};
}

// add_signs takes the counts of a tile into those of the strip.
INLINE void add_signs(signs *g, const progress *w, const int brackets) {
	const ivec mask = _mm512_set1_epi32((1 << SIGNS_BITS) - 1);
	g->tiles++;
#pragma GCC unroll 12
	for (int b = 0; b < brackets; b++) {
		const int at = SIGNS_BITS * (b % SIGNS_PER_WORD), i = b / SIGNS_PER_WORD;
		const ivec first = _mm512_and_si512(_mm512_srli_epi32(g->half[i], at), mask);
		const ivec second = _mm512_and_si512(_mm512_srli_epi32(w->word[i], at), mask);
		g->below[b] = _mm512_add_epi32(g->below[b], _mm512_add_epi32(first, second));
	}
}

// append_marked appends the values of a tile that word i of its marks names; most words name none, few more than two.
INLINE void append_marked(slc_list *l, const float *tile, uint64_t marks, int i, uint32_t row, uint32_t column) {
	const uint32_t at = (row + 2 * (uint32_t)i) << 16 | column;
	const int64_t n = __builtin_popcountll(marks);
	slc_entry *to = l->entries + l->count;
	l->count += n;
	tile += 64 * i;
	for (int k = 0; k < 2 || __builtin_expect(k < n, 0); k++, marks &= marks - 1) {
		const uint32_t j = marks ? (uint32_t)__builtin_ctzll(marks) : 0;
		*to++ = (slc_entry){tile[j], at + ((j & 32) << 11) + (j & 31)};
	}
}

// consider takes a value into a column's candidates if it may be the maximum. best and reach are the strip's.
INLINE void consider(slc_counter *c, float *best, float *reach, float value, uint32_t at) {
	if (__builtin_expect(value < *reach, 1)) return;
	if (c->other.count < c->other.capacity) c->other.entries[c->other.count++] = (slc_entry){value, at};
	else c->other.full = 1;
	if (value > *best) *best = value, *reach = signed_low(value - c->margin);
}

// check_marked takes candidates for the maximum from the marked entries, and leaves those that are to be kept.
static void check_marked(slc_counter *c, signs *g, vec *best, vec *reach, uint32_t column) {
	const vec low = LOAD(g->ends[0]), high = LOAD(g->ends[1]);
	slc_entry *from = c->kept.entries + g->unchecked, *end = c->kept.entries + c->kept.count, *to = from;
	for (; from < end; from++) {
		const slc_entry e = *from;
		const uint32_t i = (e.at & 0xffff) - column;
		const vec v = SET1(e.value);
		if (c->best) consider(c, (float *)best + i, (float *)reach + i, e.value, e.at);
		*to = e;
		to += LE_AND(GE(v, low), v, high) != 0;
	}
	c->kept.count = g->unchecked = to - c->kept.entries;
}

static void end_signs(slc_counter *c, signs *g) {
	for (int b = 0; b < c->brackets; b++) c->above[b] += g->tiles * SLC_TILE - _mm512_reduce_add_epi32(g->below[b]);
}
