//go:build amd64

// AVX-512 VNNI: four products per lane and instruction. Several queries share the unpacking of codes to bytes, after
// which a product of both planes costs as much as one of a single plane.
#pragma GCC target("avx512f,avx512dq,avx512vl,avx512bw,avx512vnni,avx2,fma")
#include "scan_avx512.h"
#define NAME slc_scan_i8_avx512vnni
#define OWN_FILTER
#include "scan_body.h"

#include "scan_filter_avx512.h"

enum {
	FEW = 4,   // below this number of queries unpacking does not pay
	BLOCK = 8, // queries per register block
	PAIR = 2   // panels per register block
};

// prefetch_panel prefetches the first planes of a panel into the first-level cache.
INLINE void prefetch_panel(const slc_scan_call *c, int64_t panel) {
	if (panel >= c->panels) return;
	for (int64_t k = 0; k < c->first; k++)
		for (int at = 0; at < SLC_SCAN_BLOCK; at += 64) __builtin_prefetch(block_of(c, c->steps[k], panel) + at, 0, 3);
}

// multiply computes the sums of code x q8 of BLOCK queries with two panels whose planes are unpacked.
INLINE void multiply(const slc_scan_call *c, const rounded *r, uint8_t (*codes)[DEPTH][1024], int64_t depth,
                     int64_t query, int32_t (*sums)[SLC_SCAN_QUERIES][SLC_SCAN_LANES]) {
	__m512i s[BLOCK][PAIR];
#pragma GCC unroll 8
	for (int i = 0; i < BLOCK; i++) s[i][0] = s[i][1] = _mm512_setzero_si512();
	for (int64_t k = 0; k < depth; k++) {
		const int8_t *q = r->q8 + place_of(c, k, query);
		for (int g = 0; g < SLC_SCAN_SECTION / 4; g++) {
			const __m512i first = _mm512_load_si512(codes[0][k] + 64 * g),
				second = _mm512_load_si512(codes[1][k] + 64 * g);
#pragma GCC unroll 8
			for (int i = 0; i < BLOCK; i++) {
				const __m512i x = four(q + i * SLC_SCAN_SECTION + 4 * g);
				s[i][0] = _mm512_dpbusd_epi32(s[i][0], first, x);
				s[i][1] = _mm512_dpbusd_epi32(s[i][1], second, x);
			}
		}
	}
#pragma GCC unroll 8
	for (int i = 0; i < BLOCK; i++) {
		_mm512_store_si512(sums[0][query + i], s[i][0]);
		_mm512_store_si512(sums[1][query + i], s[i][1]);
	}
}

static int filter(const slc_scan_call *c, const progress *s, uint64_t *alive) {
	rounded r __attribute__((aligned(64)));
	uint8_t codes[PAIR][DEPTH][1024] __attribute__((aligned(64)));
	int32_t sums[PAIR][SLC_SCAN_QUERIES][SLC_SCAN_LANES] __attribute__((aligned(64)));
	const int64_t depth = s->high < DEPTH ? s->high : DEPTH;
	if (c->queries < FEW || c->room % GROUP != 0 || c->biased) return 0;
	memset(alive, 0, (size_t)c->room * sizeof *alive);
	for (int64_t panel = 0; panel < AHEAD; panel++) prefetch_panel(c, panel);
	round_queries(c, s, &r, depth);
	for (int64_t panel = 0; panel < c->panels; panel += PAIR) {
		const int64_t count = c->panels - panel < PAIR ? c->panels - panel : PAIR;
		for (int64_t i = 0; i < count; i++) {
			prefetch_panel(c, panel + i + AHEAD);
			for (int64_t k = 0; k < depth; k++) unpack(c, s, k, panel + i, codes[i][k]);
		}
		for (int64_t query = 0; query < c->queries; query += BLOCK) multiply(c, &r, codes, depth, query, sums);
		for (int64_t i = 0; i < count; i++)
			for (int64_t group = 0; group < c->queries; group += GROUP)
				consume(c, s, &r, depth, panel + i, group, sums[i], alive);
	}
	return 1;
}
