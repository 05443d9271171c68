//go:build amd64 && !noamx

// AMX: 16 queries × 16 rows × 64 dimensions per instruction. gcc 12 supports it in its assembler only.
#pragma GCC target("avx512f,avx512dq,avx512vl,avx512bw,avx512vnni,avx2,fma")
#include "configure_amx.h"
#include "scan_avx512.h"
#define NAME slc_scan_i8_amx
#define OWN_FILTER
#include "scan_body.h"

#include "scan_filter_avx512.h"

enum { FEW = 4 }; // below this number of queries vector instructions are as fast

#define LOAD(tile, p) __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile ::"r"(p), "r"((int64_t)64) : "memory")
#define STORE(tile, p) __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(p), "r"((int64_t)64) : "memory")
#define PRODUCT(sum, queries) __asm__ volatile("tdpbsud %%tmm6, %%tmm" #queries ", %%tmm" #sum ::)

// multiply computes the sums of code·q8 of all queries with a panel whose planes are unpacked.
INLINE void multiply(const slc_scan_call *c, const rounded *r, uint8_t (*codes)[1024], int64_t depth,
                     int32_t (*sums)[SLC_SCAN_LANES]) {
	const int64_t queries = c->queries;
	__asm__ volatile("tilezero %%tmm0\ntilezero %%tmm1\ntilezero %%tmm2\ntilezero %%tmm3" ::);
	for (int64_t k = 0; k < depth; k++) {
		LOAD(6, codes[k]);
		LOAD(4, r->q8 + place_of(c, k, 0));
		PRODUCT(0, 4);
		if (queries > GROUP) {
			LOAD(5, r->q8 + place_of(c, k, GROUP));
			PRODUCT(1, 5);
		}
		if (queries > 2 * GROUP) {
			LOAD(4, r->q8 + place_of(c, k, 2 * GROUP));
			PRODUCT(2, 4);
		}
		if (queries > 3 * GROUP) {
			LOAD(5, r->q8 + place_of(c, k, 3 * GROUP));
			PRODUCT(3, 5);
		}
	}
	STORE(0, sums[0]);
	if (queries > GROUP) STORE(1, sums[GROUP]);
	if (queries > 2 * GROUP) STORE(2, sums[2 * GROUP]);
	if (queries > 3 * GROUP) STORE(3, sums[3 * GROUP]);
}

// filter pipelines three panels: it unpacks one, multiplies the previous one and consumes the one before that, so that
// no stage waits for the results of another.
static int filter(const slc_scan_call *c, const progress *s, uint64_t *alive) {
	rounded r __attribute__((aligned(64)));
	uint8_t codes[2][DEPTH][1024] __attribute__((aligned(64)));
	int32_t sums[2][SLC_SCAN_QUERIES][SLC_SCAN_LANES] __attribute__((aligned(64)));
	const int64_t depth = s->high < DEPTH ? s->high : DEPTH;
	if (c->queries < FEW || c->room % GROUP != 0 || c->biased) return 0;
	memset(alive, 0, (size_t)c->room * sizeof *alive);
	round_queries(c, s, &r, depth);
	amx_configure();
	for (int64_t panel = 0; panel < c->panels + 2; panel++) {
		if (panel + AHEAD < c->panels)
			for (int64_t k = 0; k < c->first; k++)
				for (int at = 0; at < SLC_SCAN_BLOCK; at += 64)
					__builtin_prefetch(block_of(c, c->steps[k], panel + AHEAD) + at, 0, 2);
		if (panel < c->panels)
			for (int64_t k = 0; k < depth; k++) unpack(c, s, k, panel, codes[panel & 1][k]);
		if (panel >= 1 && panel <= c->panels) multiply(c, &r, codes[(panel - 1) & 1], depth, sums[(panel - 1) & 1]);
		if (panel >= 2)
			for (int64_t group = 0; group < c->queries; group += GROUP)
				consume(c, s, &r, depth, panel - 2, group, sums[panel & 1], alive);
	}
	__asm__ volatile("tilerelease");
	return 1;
}
