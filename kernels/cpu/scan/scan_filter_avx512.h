// A first filter for many queries, for kernels whose products are cheap compared with processing each sum: its sums run
// over all sections. For that, a query is rounded again for each chunk, in proportion to the chunk's shape. Panels that
// pass the filter are scanned as usual. The including file has
//   multiply   the sums of code x q8 of all queries with unpacked panels
//   filter     the loop over a chunk's panels
#include <math.h>

enum {
	DEPTH = 16, // maximum number of sections that the filter reads
	AHEAD = 4,  // prefetch distance in panels
	GROUP = 16  // queries whose sums are compared together
};

// The queries rounded for one chunk: z ≈ coarse / shape · q8 per section. A code of which only the high nibble h is
// read counts as 16h, and stands for 120 less; else for 127.5 less.
typedef struct {
	int8_t q8[DEPTH * SLC_SCAN_QUERIES * SLC_SCAN_SECTION]; // [section][c->room queries][dimension]
	float error[DEPTH][SLC_SCAN_QUERIES]; // norm of the rounding error
	float coarse[SLC_SCAN_QUERIES];
	float offset[SLC_SCAN_QUERIES]; // offset to subtract from the codes' sums
} rounded;

INLINE int64_t place_of(const slc_scan_call *c, int64_t section, int64_t query) {
	return (section * c->room + query) * SLC_SCAN_SECTION;
}

INLINE void round_section(const slc_scan_call *c, const progress *s, rounded *r, int64_t k, int64_t query) {
	const int8_t *from = c->q8 + place_of(c, k, query);
	int8_t *to = r->q8 + place_of(c, k, query);
	const float shape = shape_of(c)[k], coarse = r->coarse[query];
	const __m512 ratio = _mm512_set1_ps(coarse > 0 ? weights_of(c, k, STEP)[query] * shape / coarse : 0);
	__m512 squares = _mm512_setzero_ps();
	__m512i total = _mm512_setzero_si512();
#pragma GCC unroll 4
	for (int i = 0; i < SLC_SCAN_SECTION; i += 16) {
		__m512i code = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(from + i)));
		__m512 x = _mm512_mul_ps(_mm512_cvtepi32_ps(code), ratio);
		__m512i whole = _mm512_cvtps_epi32(x);
		__m512 rest = _mm512_sub_ps(x, _mm512_cvtepi32_ps(whole));
		squares = _mm512_fmadd_ps(rest, rest, squares);
		total = _mm512_add_epi32(total, whole);
		_mm_storeu_si128((__m128i *)(to + i), _mm512_cvtsepi32_epi8(whole));
	}
	r->error[k][query] = shape > 0 ? sqrtf(_mm512_reduce_add_ps(squares)) * (coarse / shape) * 1.0001f : 0;
	r->offset[query] += (s->both[k] ? 127.5f : 120.0f) * (float)_mm512_reduce_add_epi32(total);
}

INLINE void round_queries(const slc_scan_call *c, const progress *s, rounded *r, int64_t depth) {
	for (int64_t query = 0; query < c->queries; query++) {
		r->coarse[query] = r->offset[query] = 0;
		for (int64_t k = 0; k < depth; k++) {
			const float coarse = weights_of(c, k, STEP)[query] * shape_of(c)[k];
			if (coarse > r->coarse[query]) r->coarse[query] = coarse;
		}
		for (int64_t k = 0; k < depth; k++) round_section(c, s, r, k, query);
	}
}

// unpack writes a section's codes as bytes in the dimension order of the tile operand.
INLINE void unpack(const slc_scan_call *c, const progress *s, int64_t section, int64_t panel, uint8_t *tile) {
	const uint8_t *high = block_of(c, 2 * (int)section, panel), *low = block_of(c, 2 * (int)section + 1, panel);
	const __m512i upper = _mm512_set1_epi8((char)0xf0), lower = _mm512_set1_epi8(15);
#pragma GCC unroll 8
	for (int g = 0; g < 8; g++) {
		const __m512i h = _mm512_loadu_si512(high + 64 * g);
		__m512i first = _mm512_and_si512(_mm512_slli_epi16(h, 4), upper), second = _mm512_and_si512(h, upper);
		if (s->both[section]) {
			const __m512i l = _mm512_loadu_si512(low + 64 * g);
			first = _mm512_or_si512(first, _mm512_and_si512(l, lower));
			second = _mm512_or_si512(second, _mm512_and_si512(_mm512_srli_epi16(l, 4), lower));
		}
		_mm512_store_si512(tile + 64 * g, first);
		_mm512_store_si512(tile + 512 + 64 * g, second);
	}
}

// lacking is slack for a panel and a group of queries with this rounding.
INLINE __m512 lacking(const slc_scan_call *c, const progress *s, const rounded *r, int64_t depth, int64_t panel,
		int64_t group) {
	__m512 sum = _mm512_setzero_ps();
	for (int64_t k = 0; k < depth; k++) {
		__m512 error = _mm512_add_ps(_mm512_loadu_ps(weights_of(c, k, ERROR) + group),
			_mm512_loadu_ps(r->error[k] + group));
		sum = _mm512_fmadd_ps(_mm512_loadu_ps(weights_of(c, k, NORM) + group),
			_mm512_set1_ps(meta_of(c, k, s->both[k] ? REST_BOTH : REST_HIGH)[panel]), sum);
		sum = _mm512_fmadd_ps(error, _mm512_set1_ps(meta_of(c, k, LENGTH)[panel]), sum);
	}
	if (depth < c->sections)
		sum = _mm512_fmadd_ps(_mm512_loadu_ps(weights_of(c, depth, TAIL) + group),
			_mm512_set1_ps(meta_of(c, depth, BEHIND)[panel]), sum);
	return sum;
}

// consume marks the panel for the queries of a group that cannot rule it out. A row is left if spread·coarse·(sum −
// offset) + term + slack ≥ need; that is solved for the sum, where a margin of 32 plus a millionth exceeds all
// roundings.
INLINE void consume(const slc_scan_call *c, const progress *s, const rounded *r, int64_t depth, int64_t panel,
	int64_t group, int32_t (*sums)[SLC_SCAN_LANES], uint64_t *alive) {
	float lowest[GROUP] __attribute__((aligned(64))), inverse[GROUP] __attribute__((aligned(64)));
	const __m512 never = _mm512_set1_ps(-1e30f), always = _mm512_set1_ps(1e30f);
	__m512 unit = _mm512_mul_ps(_mm512_loadu_ps(r->coarse + group), _mm512_set1_ps(spread_of(c)[panel]));
	__m512 lack = _mm512_sub_ps(_mm512_loadu_ps(c->need + group), lacking(c, s, r, depth, panel, group));
	__m512 t = _mm512_add_ps(_mm512_loadu_ps(r->offset + group), _mm512_div_ps(lack, unit));
	t = _mm512_min_ps(always, t); // returns the second operand if one is NaN
	const __mmask16 unknown = _mm512_cmp_ps_mask(t, never, _CMP_NGT_UQ);
	t = _mm512_sub_ps(t, _mm512_fmadd_ps(_mm512_abs_ps(t), _mm512_set1_ps(1e-6f), _mm512_set1_ps(32)));
	t = _mm512_mask_mov_ps(t, unknown, _mm512_set1_ps(NAN)); // so that the comparison is never true
	_mm512_store_ps(lowest, t);
	if (c->terms) _mm512_store_ps(inverse, _mm512_div_ps(_mm512_set1_ps(1), unit));
	const __m512 term = c->terms ? _mm512_loadu_ps(c->terms + panel * SLC_SCAN_LANES) : _mm512_setzero_ps();
	for (int q = 0; q < GROUP; q += 4) { // usually none of four queries has a row left
		__mmask16 left[4];
#pragma GCC unroll 4
		for (int i = 0; i < 4; i++) {
			__m512 sum = _mm512_cvtepi32_ps(_mm512_load_si512(sums[group + q + i]));
			if (c->terms) sum = _mm512_fmadd_ps(term, _mm512_set1_ps(inverse[q + i]), sum);
			left[i] = _mm512_cmp_ps_mask(sum, _mm512_set1_ps(lowest[q + i]), _CMP_NLT_UQ);
		}
		if (_kortestz_mask16_u8(_kor_mask16(left[0], left[1]), _kor_mask16(left[2], left[3]))) continue;
		for (int i = 0; i < 4; i++) alive[group + q + i] |= (uint64_t)(left[i] != 0) << panel;
	}
}
