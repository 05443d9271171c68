// The body of slc_attention_bf16 on tile registers, compiled for AMX and for its emulation. A file that includes it
// defines ISA, includes a lanes_<isa>.h and a tile_ops_<isa>.h, and defines BF16 (linear_bf16_body.h).
//
// Queries, keys, values and softmax weights are bfloat16; sums and the softmax are float32. Scores are in units of ln
// 2, so that the softmax needs only powers of 2: the queries are scaled accordingly before rounding.
//
// A part is 16 queries of a text and head. While the softmax of a part is computed, the tile registers compute the
// scores of the next one. Memory layout for a text and head, in units of TILE_BYTES:
//   keys     for each 16 of them and 32 of their values [16 pairs of values][16 keys][2]
//   values   for each 32 keys and 16 of their values [16 pairs of keys][16 values][2]
// and for a part:
//   queries  for each 32 of their values [16 queries][32]
//   weights  for each 32 keys [16 queries][32]
#include <string.h>

#include "attention.h"
#include "lanes_body.h"
#include "transpose_body.h"

enum { TILE = 16, STEP = 32, TILE_BYTES = 1024, VECTORS = STEP / W };

typedef struct {
	int64_t text, head, query;
	int64_t from, n, padded; // rows of the text: the first, their number, and that rounded up to whole steps
} part;

typedef struct {
	const slc_attention *a;
	int64_t depth, width; // of a head, rounded up to whole steps and to whole tiles
	uint8_t *keys, *values, *queries, *weights;
	float *scores[2], *block; // of a part and the next one; 16 × 32 sums
	float highest[TILE], sums[TILE]; // of a part's queries
} memory;

INLINE int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// find advances to the next text that is not empty, and reports whether there is one.
INLINE int find(const slc_attention *a, part *p) {
	for (; p->text < a->last; p->text++) {
		p->from = a->starts[p->text], p->n = a->starts[p->text + 1] - p->from, p->padded = up(p->n, STEP);
		p->head = a->first_head, p->query = 0;
		if (p->n > 0) return p->head < a->last_head;
	}
	return 0;
}

INLINE int next(const slc_attention *a, part *p) {
	if ((p->query += TILE) < p->n) return 1;
	p->query = 0;
	if (++p->head < a->last_head) return 1;
	p->text++;
	return find(a, p);
}

INLINE int64_t queries_of(const part *p) { return least(p->n - p->query, TILE); }

// at returns the query (kind 0), key (1) or value (2) of a row.
INLINE const float *at(const slc_attention *a, const part *p, int64_t row, int64_t kind) {
	return a->qkv + (p->from + row) * a->stride + (kind * a->heads + p->head) * a->size;
}

// reach returns a pointer to n values of x, or to a copy padded with zeros if only `there` values exist.
INLINE const float *reach(float *copy, const float *x, int64_t there, int64_t n) {
	if (there >= n) return x;
	memset(copy, 0, n * sizeof *x);
	memcpy(copy, x, there * sizeof *x);
	return copy;
}

// round_step writes the next 32 of `there` values, times a factor, as bfloat16.
INLINE void round_step(uint8_t *to, const float *x, int64_t there, float factor) {
	float copy[STEP] __attribute__((aligned(64)));
	x = reach(copy, x, there, STEP);
#pragma GCC unroll 2
	for (int j = 0; j < STEP; j += 2 * W) BF16(to + 2 * j, LOAD(x + j) * SET1(factor), LOAD(x + j + W) * SET1(factor));
}

static __attribute__((noinline)) void pack_queries(const memory *m, const part *p) {
	const slc_attention *a = m->a;
	const int64_t rows = queries_of(p);
	uint8_t *to = m->queries;
	for (int64_t k = 0; k < a->size; k += STEP, to += TILE_BYTES)
		for (int64_t i = 0; i < rows; i++)
			round_step(to + 64 * i, at(a, p, p->query + i, 0) + k, a->size - k, a->scale * 0x1.715476p0f);
}

static __attribute__((noinline)) void pack_keys(const memory *m, const part *p) {
	const slc_attention *a = m->a;
	uint8_t rows[TILE * 64] __attribute__((aligned(64))), *to = m->keys;
	for (int64_t key = 0; key < p->n; key += TILE)
		for (int64_t k = 0; k < a->size; k += STEP, to += TILE_BYTES) {
			const int64_t there = least(p->n - key, TILE);
			const float *x = at(a, p, key, 1) + k;
			for (int64_t i = 0; i < there; i++, x += a->stride) round_step(rows + 64 * i, x, a->size - k, 1);
			memset(rows + 64 * there, 0, 64 * (TILE - there));
			transpose_block((float *)to, TILE, (const float *)rows, TILE, TILE, TILE); // a pair moves as one value
		}
}

// pack_pair interleaves 16 values of two rows.
INLINE void pack_pair(uint8_t *to, const float *one, const float *two) {
	typedef uint16_t words __attribute__((vector_size(64)));
	const words turns = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8, 24, 9, 25, 10, 26, 11, 27,
	                     12, 28, 13, 29, 14, 30, 15, 31};
	words both;
#pragma GCC unroll 2
	for (int j = 0; j < STEP; j += 2 * W)
		BF16((uint8_t *)&both + 2 * j, LOAD(j < TILE ? one + j : two + j - TILE),
		     LOAD(j + W < TILE ? one + j + W : two + j + W - TILE));
	both = __builtin_shuffle(both, turns);
	memcpy(to, &both, sizeof both);
}

static __attribute__((noinline)) void pack_values(const memory *m, const part *p) {
	static const float zeros[TILE];
	const slc_attention *a = m->a;
	const int64_t step = m->width / TILE * TILE_BYTES; // of 32 keys
	float copies[2][TILE] __attribute__((aligned(64)));
	for (int64_t j = 0; j < a->size; j += TILE) {
		uint8_t *to = m->values + j / TILE * TILE_BYTES;
		const float *x = at(a, p, 0, 2) + j;
		const int64_t left = a->size - j;
		for (int64_t key = 0; key < p->n; key += STEP, to += step) {
			const int64_t there = least(p->n - key, STEP);
			for (int64_t i = 0; i < there; i += 2, x += 2 * a->stride)
				pack_pair(to + 32 * i, reach(copies[0], x, left, TILE),
				          i + 1 < there ? reach(copies[1], x + a->stride, left, TILE) : zeros);
			memset(to + (there + 1) / 2 * 64, 0, (STEP - there) / 2 * 64);
		}
	}
}

// fetch prefetches the next head's part of a row.
INLINE void fetch(const slc_attention *a, const part *p, int64_t row) {
	if (p->head + 1 < a->last_head)
		for (int kind = 0; kind < 3; kind++)
			for (int64_t j = 0; j < a->size; j += 16) __builtin_prefetch(at(a, p, row, kind) + a->size + j, 0, 2);
}

// score computes the products of a part's queries with the keys from `key` to `end`, and returns the next key.
INLINE int64_t score(const memory *m, const part *p, float *scores, int64_t key, int64_t end) {
	for (; key < end; key += TILE) {
		const uint8_t *q = m->queries, *k = m->keys + key / TILE * (m->depth / STEP) * TILE_BYTES;
		TILE_ZERO(0);
		for (int64_t i = 0; i < m->depth; i += STEP, q += TILE_BYTES, k += TILE_BYTES) {
			TILE_LOAD(4, q, 64);
			TILE_LOAD(5, k, 64);
			TILE_BF16(0, 4, 5);
		}
		TILE_STORE(0, scores + key, 4 * p->padded);
	}
	return key;
}

// add_bias adds a bias to a row of n scores.
static __attribute__((noinline)) void add_bias(float *scores, const float *bias, int64_t n) {
	for (int64_t j = 0; j < n; j += W)
		STORE(scores + j, MADD(LOAD(scores + j), n - j < W ? LOADN(bias + j, n - j) : LOAD(bias + j),
		                       SET1(0x1.715476p0f)));
}

static __attribute__((noinline)) float highest_of(const float *scores, int64_t n) {
	const vec none = SET1(-__builtin_inff());
	vec highest[VECTORS];
#pragma GCC unroll 4
	for (int i = 0; i < VECTORS; i++) highest[i] = none;
	for (; n >= STEP; n -= STEP, scores += STEP)
#pragma GCC unroll 4
		for (int i = 0; i < VECTORS; i++) highest[i] = MAX(highest[i], LOAD(scores + i * W));
	if (n)
#pragma GCC unroll 4
		for (int i = 0; i < VECTORS; i++)
			highest[i] = MAX(highest[i], choose(below(n - i * W), LOAD(scores + i * W), none));
#pragma GCC unroll 4
	for (int i = 1; i < VECTORS; i++) highest[0] = MAX(highest[0], highest[i]);
	return largest(highest[0]);
}

// power_2 is 2^x for x between -126 and 127, with relative error 7.5e-5: a polynomial of degree 3, fitted for the
// smallest relative error. bfloat16 rounds to 2e-3.
INLINE vec power_2(vec x) {
	const vec magic = SET1(0x1.8p23f); // x + magic has the nearest integer to x in its lowest bits
	const vec n = x + magic, r = x - (n - magic);
	vec p = MADD(SET1(0.2426112f), SET1(0.055171702f), r);
	p = MADD(SET1(0.69326097f), p, r);
	p = MADD(SET1(0.99992806f), p, r);
	return (vec)((uvec)p + ((uvec)n << 23));
}

// weigh_step writes the softmax weights of the next 32 of n keys, zeros beyond the last, and adds them to sums.
INLINE void weigh_step(uint8_t *weights, const float *scores, int64_t n, vec highest, vec *sums) {
	vec w[VECTORS];
#pragma GCC unroll 4
	for (int i = 0; i < VECTORS; i++) {
		w[i] = power_2(MAX(SET1(-126.f), LOAD(scores + i * W) - highest)); // this operand order preserves a NaN
		if (n < STEP) w[i] = choose(below(n - i * W), w[i], SET1(0.f));
		sums[i] = sums[i] + w[i];
	}
#pragma GCC unroll 2
	for (int i = 0; i < VECTORS; i += 2) BF16(weights + 2 * i * W, w[i], w[i + 1]);
}

// weigh writes the softmax weights of a row of n scores, and returns their sum before rounding.
static __attribute__((noinline)) float weigh(uint8_t *weights, const float *scores, int64_t n, float highest) {
	vec sums[VECTORS];
#pragma GCC unroll 4
	for (int i = 0; i < VECTORS; i++) sums[i] = SET1(0.f);
	for (; n >= STEP; n -= STEP, scores += STEP, weights += TILE_BYTES)
		weigh_step(weights, scores, STEP, SET1(highest), sums);
	if (n) weigh_step(weights, scores, n, SET1(highest), sums);
#pragma GCC unroll 2
	for (int half = VECTORS / 2; half > 0; half /= 2)
#pragma GCC unroll 2
		for (int i = 0; i < half; i++) sums[i] = sums[i] + sums[i + half];
	return total(sums[0]);
}

// soften computes the softmax weights of a part and their sums, while the tile registers compute the scores of the next
// part with the keys before `end`.
INLINE void soften(memory *m, const part *p, int turn, const part *then, int64_t end) {
	const slc_attention *a = m->a;
	const int64_t rows = queries_of(p), share = (end + rows - 1) / rows;
	float *scores = m->scores[turn];
	// All maxima come before all weights: each weight depends on its row's maximum, and the processor does not look
	// many rows ahead.
	for (int64_t i = 0; i < rows; i++) {
		float *row = scores + i * p->padded;
		if (a->bias) add_bias(row, a->bias + p->head * (2 * a->far + 1) + a->far - (p->query + i), p->n);
		m->highest[i] = highest_of(row, p->n);
	}
	for (int64_t i = 0, key = 0; i < rows; i++) {
		fetch(a, p, p->query + i);
		key = score(m, then, m->scores[turn ^ 1], key, least((i + 1) * share, end));
		m->sums[i] = weigh(m->weights + 64 * i, scores + i * p->padded, p->n, m->highest[i]);
	}
}

// finish adds up the values of a part times their weights, and writes its rows of y.
static __attribute__((noinline)) void finish(const memory *m, const part *p) {
	const slc_attention *a = m->a;
	const int64_t rows = queries_of(p);
	float over[TILE];
	for (int i = 0; i < TILE; i += W) STORE(over + i, SET1(1.f) / LOAD(m->sums + i));
	for (int64_t j = 0; j < a->size; j += 2 * TILE) {
		const uint8_t *w = m->weights, *v = m->values + j / TILE * TILE_BYTES;
		const int two = j + TILE < a->size;
		TILE_ZERO(1);
		TILE_ZERO(2);
		for (int64_t key = 0; key < p->n; key += STEP, w += TILE_BYTES, v += m->width / TILE * TILE_BYTES) {
			TILE_LOAD(6, w, 64);
			TILE_LOAD(7, v, 64);
			TILE_BF16(1, 6, 7);
			if (!two) continue;
			TILE_LOAD(7, v + TILE_BYTES, 64);
			TILE_BF16(2, 6, 7);
		}
		TILE_STORE(1, m->block, 4 * STEP);
		TILE_STORE(2, m->block + TILE, 4 * STEP);
		float *y = a->y + (p->from + p->query) * a->y_stride + p->head * a->size + j;
		for (int64_t i = 0; i < rows; i++, y += a->y_stride)
			for (int64_t k = 0; k < STEP && j + k < a->size; k += W) {
				const vec x = LOAD(m->block + i * STEP + k) * SET1(over[i]);
				if (a->size - j - k >= W) STORE(y + k, x);
				else STOREN(y + k, x, a->size - j - k);
			}
	}
}

// divide partitions a->scratch (slc_attention_scratch).
INLINE memory divide(const slc_attention *a) {
	int64_t longest = 0;
	for (int64_t i = a->first; i < a->last; i++)
		if (longest < a->starts[i + 1] - a->starts[i]) longest = a->starts[i + 1] - a->starts[i];
	longest = up(longest, STEP);
	memory m = {.a = a, .depth = up(a->size, STEP), .width = up(a->size, TILE)};
	m.keys = (uint8_t *)(((uintptr_t)a->scratch + 63) & ~(uintptr_t)63);
	m.values = m.keys + 2 * longest * m.depth;
	m.queries = m.values + 2 * longest * m.width;
	m.weights = m.queries + 2 * TILE * m.depth;
	m.scores[0] = (float *)(m.weights + 2 * TILE * longest);
	m.scores[1] = m.scores[0] + TILE * longest;
	m.block = m.scores[1] + TILE * longest;
	return m;
}

void PASTE(slc_attention_bf16_, ISA)(const slc_attention *a) {
	amx_configuration c __attribute__((aligned(64))) = amx_whole();
	memory m = divide(a);
	part p = {.text = a->first};
	int more = find(a, &p);
	if (!more) return;
	TILE_CONFIGURE(c);
	pack_queries(&m, &p);
	pack_keys(&m, &p);
	pack_values(&m, &p);
	score(&m, &p, m.scores[0], 0, p.n);
	for (int turn = 0; more; turn ^= 1) {
		part then = p;
		more = next(a, &then);
		const int other = more && then.query == 0; // another text or head
		if (other) pack_keys(&m, &then);
		if (more) pack_queries(&m, &then);
		soften(&m, &p, turn, &then, more ? then.n : 0);
		finish(&m, &p);
		if (other) pack_values(&m, &then);
		p = then;
	}
	TILE_RELEASE();
}
