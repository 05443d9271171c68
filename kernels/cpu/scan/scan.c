//go:build amd64 || arm64

// Checks the arguments of the index scan, then calls it by instruction set.
#include "fail.h"
#include "scan.h"

static slc_scan_fn *const table[SLC_ISAS] = {
	[SLC_SCALAR] = slc_scan_i8_scalar,
#if defined(__x86_64__)
	[SLC_AVX2] = slc_scan_i8_avx2,
	[SLC_AVX512] = slc_scan_i8_avx2, // without VNNI, 512 bits gain nothing over 256 here
	[SLC_AVX512VNNI] = slc_scan_i8_avx512vnni,
#if defined(SLC_WITH_AMX)
	[SLC_AMX] = slc_scan_i8_amx,
#endif
#endif
};

// in_order tells whether high planes come in order and each low plane behind its high one, none twice.
static int in_order(const uint8_t *steps, int64_t count, int64_t sections) {
	uint8_t low[SLC_SCAN_SECTIONS] = {0};
	int high = 0;
	for (int64_t k = 0; k < count; k++) {
		int section = steps[k] / 2;
		if (steps[k] % 2 == 0) {
			if (section != high || section >= sections) return 0;
			high++;
		} else {
			if (section >= high || low[section]) return 0;
			low[section] = 1;
		}
	}
	return 1;
}

int32_t slc_scan(int32_t isa, const uint8_t *codes, const float *meta, const float *terms, int64_t panels,
                 int64_t sections, const int8_t *q8, const int32_t *sums, const float *weights, int64_t queries,
                 int64_t room, const uint8_t *steps, int64_t step_count, int64_t first, const float *need,
                 const float *bias, uint64_t biased, const float *lift, float *acc, uint32_t *found, float *bounds,
                 int64_t *found_count, int64_t *alive, slc_error *error) {
	if (isa < 0 || isa >= SLC_ISAS || !table[isa])
		FAIL(SLC_ERROR_ISA, "instruction set %d is not in this build", (int)isa);
	if (panels < 0 || panels > SLC_SCAN_PANELS || sections < 1 || sections > SLC_SCAN_SECTIONS || queries < 1 ||
	    queries > SLC_SCAN_QUERIES || room < queries)
		FAIL(SLC_ERROR_SHAPE, "scan of %lld panels, %lld sections, %lld queries; at most %d, %d, %d", (long long)panels,
		     (long long)sections, (long long)queries, SLC_SCAN_PANELS, SLC_SCAN_SECTIONS, SLC_SCAN_QUERIES);
	if (step_count < 1 || first < 1 || first > step_count || !steps || !in_order(steps, step_count, sections))
		FAIL(SLC_ERROR_SHAPE, "scan of %lld planes, %lld at first, not in order", (long long)step_count,
			(long long)first);
	if (biased && (!bias || !lift)) FAIL(SLC_ERROR_SHAPE, "scan: biased queries without biases");
	if (!codes || !meta || !q8 || !sums || !weights || !need || !acc || !found || !bounds || !found_count || !alive)
		FAIL(SLC_ERROR_SHAPE, "scan: null pointer");
	const slc_scan_call call = {codes, meta, terms, panels, sections, q8, sums, weights, queries, room,
	                            steps, step_count, first, need, bias, biased, lift, acc, found,
	                            bounds, alive};
	*found_count = table[isa](&call);
	return SLC_OK;
}
