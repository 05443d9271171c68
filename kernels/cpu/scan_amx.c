//go:build amd64

// AMX: 16 queries × 16 rows × 64 dimensions in one instruction. gcc 12 has it in its assembler only.
#pragma GCC target("avx512f,avx512dq,avx512vl,avx512bw,avx512vnni,avx2,fma")
#include "scan_avx512.h"
#define NAME slc_scan_i8_amx
#define OWN_ACCUMULATE
static void accumulate(const slc_scan_call *c);
#include "scan_body.h"

enum { TOGETHER = 4, FEW = 4 }; // panels at a time; queries below which vectors are as fast

// configure makes tile 0 the queries (rows of 64 bytes), 1 the codes, 4 to 7 the sums of four panels.
INLINE void configure(int64_t queries) {
	struct {
		uint8_t palette, start, zero[14];
		uint16_t columns[16];
		uint8_t rows[16];
	} t __attribute__((aligned(64))) = {.palette = 1};
	for (int i = 0; i < 8; i++) t.columns[i] = 64, t.rows[i] = (uint8_t)(i >= 1 && i <= 3 ? 16 : queries);
	__asm__ volatile("ldtilecfg %0" ::"m"(t));
}

INLINE void unpack(const uint8_t *block, uint8_t *tile) {
	const __m512i nibble = _mm512_set1_epi8(15);
#pragma GCC unroll 8
	for (int g = 0; g < 8; g++) {
		__m512i x = _mm512_loadu_si512(block + 64 * g);
		_mm512_store_si512(tile + 64 * g, _mm512_and_si512(x, nibble));
		_mm512_store_si512(tile + 512 + 64 * g, _mm512_and_si512(_mm512_srli_epi16(x, 4), nibble));
	}
}

#define PANEL(tile, i) \
	if (i < n) { \
		unpack(block_of(c, plane, panel + i), codes[i]); \
		__asm__ volatile("tilezero %%tmm" #tile "\ntileloadd (%0,%1,1), %%tmm1\ntdpbsud %%tmm1, %%tmm0, %%tmm" #tile \
		                 "\ntilestored %%tmm" #tile ", (%2,%1,1)" ::"r"(codes[i]), "r"((int64_t)64), "r"(sums[i]) : "memory"); \
	}

// accumulate reads the first planes of all panels, a few panels at a time so that their sums stay near.
static void accumulate(const slc_scan_call *c) {
	if (c->queries < FEW) {
		for (int64_t k = 0; k < c->first; k++)
			for (int64_t panel = 0; panel < c->panels; panel++)
				for (int64_t query = 0; query < c->queries; query++) add_plane(c, c->steps[k], panel, query);
		return;
	}
	uint8_t codes[TOGETHER][1024] __attribute__((aligned(64)));
	int32_t sums[TOGETHER][SLC_SCAN_QUERIES * SLC_SCAN_LANES] __attribute__((aligned(64)));
	configure(c->queries);
	for (int64_t panel = 0; panel < c->panels; panel += TOGETHER) {
		const int64_t n = c->panels - panel < TOGETHER ? c->panels - panel : TOGETHER;
		for (int64_t k = 0; k < c->first; k++) {
			const int plane = c->steps[k];
			const int64_t section = plane >> 1;
			const float *scale = meta_of(c, section, SCALE) + panel;
			const int32_t *offset = c->sums + section * c->queries;
			__asm__ volatile("tileloadd (%0,%1,1), %%tmm0" ::"r"(c->q8 + section * c->queries * SLC_SCAN_SECTION), "r"((int64_t)64) : "memory");
			PANEL(4, 0)
			PANEL(5, 1)
			PANEL(6, 2)
			PANEL(7, 3)
			for (int64_t query = 0; query < c->queries; query++) {
				const float unit = factor_of(plane) * weight_of(c, section, STEP, query);
				float *acc = c->acc + (query * c->panels + panel) * SLC_SCAN_LANES;
				for (int64_t i = 0; i < n; i++, acc += SLC_SCAN_LANES) {
					ints sum;
					memcpy(&sum, sums[i] + query * SLC_SCAN_LANES, sizeof sum);
					sum = sum + sum - offset[query];
					floats more = load(acc) + __builtin_convertvector(sum, floats) * (unit * scale[i]);
					store(acc, &more);
				}
			}
		}
	}
	__asm__ volatile("tilerelease");
}
