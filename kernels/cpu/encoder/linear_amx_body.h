// The body of slc_linear_f32 on tile registers, compiled for AMX and for its emulation. A file that includes it defines
// ISA, includes a lanes_<isa>.h and a tile_ops_<isa>.h, and defines
//   NEAREST(v)       the nearest integers
//   LARGER(a, b)     the larger integers
//   BYTES(p, v, at)  stores a byte of each lane of 64 / W vectors, `at` from the lowest
//
// A float is a 24-bit integer, three signed 8-bit digits, times a step that SPAN inputs of a row share. Of the nine
// products of two numbers' digits, the six largest are added exactly, in three sums, one per power of 256; the omitted
// ones are below 2^-23 of the product of the largest values. Weights are packed as digits: three bytes, instead of four
// to read with few rows. Inputs are converted to digits once per call, a slice of a group of rows at a time, in
// l->scratch. The layout of 16 rows or outputs and a span is
//   rows     [2 halves][3 digits, the highest first][16 rows][64 inputs], [16 steps]
//   weights  [2 halves][3 digits][16 fours of inputs][16 outputs][4], [16 steps times 65536]
// and a panel of packed weights has, for each span, both of its groups of 16 outputs.
//
// The tile registers multiply a span while the vector units add up the previous one. The vector instructions are placed
// between the multiplications of the two halves; after the tile stores, which wait for the products, they would wait as
// well.
#include <string.h>

#include "linear.h"
#include "lanes_body.h"

// SLICE is the number of spans whose weights stay in the first-level cache during a block of rows.
enum {
	PANEL = 32,
	BLOCK_R = 64,
	TILE = 16,
	VECTORS = TILE / W,
	SPAN = SLC_LINEAR_SPAN,
	STEP = SPAN,
	DEPTH = SLC_LINEAR_DEPTH,
	SLICE = 2,
	PLANE = TILE * 64, // bytes of a digit of half a span: one register
	STEPS_AT = 6 * PLANE,
	TILE_BYTES = SLC_LINEAR_TILE,
	GROUP = SLC_LINEAR_ROWS,
	FEW_ROWS = SLC_LINEAR_FEW
};
_Static_assert(SPAN == 128 && TILE_BYTES == STEPS_AT + TILE * 4, "two registers of each digit, and the steps");

#include "linear_waiting_body.h"

// The largest magnitude in steps whose digits are in -128 to 127.
#define MOST 8355000.f

// largest_magnitude compares magnitudes as integers, where NaN is larger than all numbers.
INLINE float largest_magnitude(ivec v) {
	if (W > 8) v = LARGER(v, BEHIND(v, 8));
	if (W > 4) v = LARGER(v, BEHIND(v, 4));
	v = LARGER(v, BEHIND(v, 2));
	const int32_t bits = v[0] > v[1] ? v[0] : v[1];
	float top;
	memcpy(&top, &bits, sizeof top);
	return top;
}

// encode writes the digits of up to SPAN values, `plane` bytes apart, 64 of each digit together, and returns their
// step: a value is its integer times the step, with an error of up to half a step. If a value is not finite, neither is
// the step.
INLINE float encode(uint8_t *to, int64_t plane, const float *x, int64_t n) {
	float padded[SPAN] __attribute__((aligned(64)));
	if (n < SPAN) {
		memset(padded, 0, sizeof padded);
		memcpy(padded, x, n * sizeof *x);
		x = padded;
	}
	ivec highest = {0};
#pragma GCC unroll 16
	for (int j = 0; j < SPAN; j += W) highest = LARGER(highest, (ivec)LOAD(x + j) & 0x7fffffff);
	const float top = largest_magnitude(highest);
	const vec scale = SET1(top > 1e-30f ? MOST / top : 0);
	for (int half = 0; half < SPAN; half += 64, to += 3 * plane) {
		ivec v[64 / W];
#pragma GCC unroll 8
		for (int j = 0; j < 64 / W; j++) // adding half of each digit's range makes each byte its digit plus that offset
			v[j] = (NEAREST(LOAD(x + half + j * W) * scale) + 0x808080) ^ 0x808080;
		BYTES(to, v, 2);
		BYTES(to + plane, v, 1);
		BYTES(to + 2 * plane, v, 0);
	}
	return top > 1e-30f || top != top ? top / MOST : 0;
}

void PASTE(slc_linear_pack_f32_, ISA)(float *packed, const float *weights, int64_t stride, int64_t out, int64_t in) {
	uint8_t *to = (uint8_t *)packed;
	for (int64_t panel = 0; panel < out; panel += PANEL)
		for (int64_t k = 0; k < in; k += SPAN)
			for (int64_t o = panel; o < panel + PANEL; o += TILE, to += TILE_BYTES)
				for (int64_t j = 0; j < TILE; j++) {
					uint8_t digits[3 * SPAN];
					const int64_t n = o + j >= out ? 0 : in - k < SPAN ? in - k : SPAN;
					const float step = encode(digits, 64, weights + (n ? (o + j) * stride + k : 0), n);
					((float *)(to + STEPS_AT))[j] = 65536.f * step;
					for (int i = 0; i < 3 * SPAN; i += 4) memcpy(to + i * TILE + 4 * j, digits + i, 4);
				}
}

// room returns the digits of a slice of a call's rows: with few rows all slices are kept.
INLINE uint8_t *room(const slc_linear *l, int64_t from) {
	uint8_t *to = (uint8_t *)(((uintptr_t)l->scratch + 63) & ~(uintptr_t)63);
	return to + (l->rows <= FEW_ROWS ? (l->rows + TILE - 1) / TILE * (from / SPAN) * TILE_BYTES : 0);
}

INLINE int64_t spans_of(int64_t inputs) { return (inputs + SPAN - 1) / SPAN; }

// encode_rows writes the digits of a slice of the rows [row, row + rows), padded with zeros to whole tiles.
static void encode_rows(const slc_linear *l, int64_t from, int64_t inputs, int64_t row, int64_t rows) {
	for (int64_t i = 0; i < (rows + TILE - 1) / TILE * TILE; i++) {
		uint8_t *to = room(l, from) + i / TILE * spans_of(inputs) * TILE_BYTES;
		for (int64_t k = 0; k < inputs; k += SPAN, to += TILE_BYTES) {
			const int64_t n = i >= rows ? 0 : inputs - k < SPAN ? inputs - k : SPAN;
			const float *x = l->x + (n ? (row + i) * l->x_stride + from + k : 0);
			((float *)(to + STEPS_AT))[i % TILE] = encode(to + i % TILE * 64, PLANE, x, n);
		}
	}
}

// multiply_half adds the products of half a span: the highest digits to register 0, the next power of 256 to register
// 1, then 2.
INLINE void multiply_half(const uint8_t *x, const uint8_t *w) {
	TILE_LOAD(3, x, 64);
	TILE_LOAD(4, w, 64);
	TILE_I8(0, 3, 4); // high · high
	TILE_LOAD(5, w + PLANE, 64);
	TILE_LOAD(7, x + PLANE, 64);
	TILE_I8(1, 3, 5); // high · middle
	TILE_I8(1, 7, 4);
	TILE_LOAD(6, w + 2 * PLANE, 64);
	TILE_I8(2, 3, 6); // high · low
	TILE_I8(2, 7, 5); // middle · middle
	TILE_LOAD(3, x + 2 * PLANE, 64);
	TILE_I8(2, 3, 4);
}

INLINE void multiply_first(const uint8_t *x, const uint8_t *w) {
	TILE_ZERO(0);
	TILE_ZERO(1);
	TILE_ZERO(2);
	multiply_half(x, w);
}

INLINE void multiply_second(int32_t *n, const uint8_t *x, const uint8_t *w) {
	multiply_half(x + 3 * PLANE, w + 3 * PLANE);
	TILE_STORE(0, n, 64);
	TILE_STORE(1, n + TILE * TILE, 64);
	TILE_STORE(2, n + 2 * TILE * TILE, 64);
}

// products returns a row's products with W outputs, in units of both steps times 65536.
INLINE vec products(const int32_t *n) {
	ivec high, middle, low;
	memcpy(&high, n, sizeof high);
	memcpy(&middle, n + TILE * TILE, sizeof middle);
	memcpy(&low, n + 2 * TILE * TILE, sizeof low);
	const vec rest = __builtin_convertvector((middle << 8) + low, vec);
	return MADD(rest, __builtin_convertvector(high, vec), SET1(65536.f));
}

// A part of a block: 16 rows, 16 outputs, one span; in the order of multiplication, the spans of one slice at a time.
typedef struct {
	int64_t tile, half, span, end; // the slice ends before `end`
} part;

INLINE int next_part(part *p, int64_t tiles, int64_t spans) {
	const int64_t first = (p->end - 1) / SLICE * SLICE;
	if (++p->span < p->end) return 1;
	p->span = first;
	if (++p->half < 2) return 1;
	p->half = 0;
	if (++p->tile < tiles) return 1;
	p->tile = 0, p->span = p->end;
	p->end = p->span + SLICE < spans ? p->span + SLICE : spans;
	return p->span < spans;
}

INLINE void add_span(vec (*s)[VECTORS], const int32_t *n, const float *steps, const float *scales) {
#pragma GCC unroll 2
	for (int j = 0; j < VECTORS; j++) {
		const vec scale = LOAD(scales + j * W);
#pragma GCC unroll 16
		for (int i = 0; i < TILE; i++)
			s[i][j] = MADD(s[i][j], SET1(steps[i]), products(n + i * TILE + j * W) * scale);
	}
}

// multiply_rows writes the sums of rows with a panel over a number of spans, prefetches from next to end, and finishes
// the previous block.
static __attribute__((noinline)) void multiply_rows(float *sums, const uint8_t *rows, int64_t tiles,
		const uint8_t *weights, int64_t spans, const uint8_t *next, const uint8_t *end, waiting *before) {
	int32_t n[2][3 * TILE * TILE] __attribute__((aligned(64)));
	const int64_t parts = tiles * 2 * spans, lines = ((end - next) / 64 + parts - 1) / parts;
	const int64_t ends = (before->rows + parts - 1) / parts;
	part ahead = {0, 0, 0, SLICE < spans ? SLICE : spans};
	unsigned int turn = 0;
	int more = 1;
#define X (rows + (ahead.tile * spans + ahead.span) * TILE_BYTES)
#define WEIGHTS_AHEAD (weights + (ahead.span * 2 + ahead.half) * TILE_BYTES)
	multiply_first(X, WEIGHTS_AHEAD);
	multiply_second(n[turn], X, WEIGHTS_AHEAD);
	more = next_part(&ahead, tiles, spans);
	for (int64_t first = 0; first < spans; first += SLICE)
		for (int64_t tile = 0; tile < tiles; tile++)
			for (int64_t half = 0; half < 2; half++) {
				float *to = sums + tile * TILE * PANEL + half * TILE;
				vec s[TILE][VECTORS];
#pragma GCC unroll 16
				for (int i = 0; i < TILE; i++)
#pragma GCC unroll 2
					for (int j = 0; j < VECTORS; j++) s[i][j] = first ? LOAD(to + i * PANEL + j * W) : SET1(0.f);
				for (int64_t span = first; span < spans && span < first + SLICE; span++, turn ^= 1) {
					const uint8_t *x = X, *w = WEIGHTS_AHEAD;
					if (more) multiply_first(x, w);
					for (int64_t i = 0; i < lines && next < end; i++, next += 64) __builtin_prefetch(next, 0, 2);
					add_span(s, n[turn], (const float *)(rows + (tile * spans + span) * TILE_BYTES + STEPS_AT),
					         (const float *)(weights + (span * 2 + half) * TILE_BYTES + STEPS_AT));
					if (more) {
						finish_some(before, ends);
						multiply_second(n[turn ^ 1], x, w);
						more = next_part(&ahead, tiles, spans);
					}
				}
#pragma GCC unroll 16
				for (int i = 0; i < TILE; i++)
#pragma GCC unroll 2
					for (int j = 0; j < VECTORS; j++) STORE(to + i * PANEL + j * W, s[i][j]);
			}
#undef X
#undef WEIGHTS_AHEAD
}

INLINE void multiply_block(float *sums, const slc_linear *l, slice k, int64_t row, int64_t rows,
		const uint8_t *weights, const uint8_t *next, const uint8_t *end, waiting *before) {
	const int64_t spans = spans_of(k.steps);
	const uint8_t *x = room(l, k.from) + row % GROUP / TILE * spans * TILE_BYTES;
	multiply_rows(sums, x, (rows + TILE - 1) / TILE, weights, spans, next, end, before);
}

#define NAME PASTE(slc_linear_f32_, ISA)
#define WEIGHTS(l, panel, from) \
	((const uint8_t *)(l)->weights + ((panel) * spans_of((l)->in) + (from) / SPAN) * 2 * TILE_BYTES)
#define BEGIN_SLICE encode_rows
#include "linear_overlap_body.h"
