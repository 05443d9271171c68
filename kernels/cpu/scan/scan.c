//go:build amd64 || arm64

// Checks the arguments of the index scan, then calls the function of the instruction set.
#include "fail.h"
#include "scan.h"

static slc_scan_fn *const table[SLC_ISAS] = {
	[SLC_SCALAR] = slc_scan_i8_scalar,
#if defined(__x86_64__)
	[SLC_AVX2] = slc_scan_i8_avx2,
	[SLC_AVXVNNI] = slc_scan_i8_avxvnni,
	[SLC_AVX512] = slc_scan_i8_avx2, // without VNNI, 512 bits gain nothing over 256 here
	[SLC_AVX512VNNI] = slc_scan_i8_avx512vnni,
#if defined(SLC_WITH_AMX)
	[SLC_AMX] = slc_scan_i8_amx,
#endif
#elif defined(__aarch64__)
	[SLC_NEON] = slc_scan_i8_neon, [SLC_DOTPROD] = slc_scan_i8_dotprod, [SLC_I8MM] = slc_scan_i8_dotprod,
	[SLC_BFMMLA] = slc_scan_i8_dotprod,
#endif
};

// in_order checks that high planes are in ascending order, each low plane follows its high plane, and none repeats.
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

int32_t slc_scan(int32_t isa, slc_scan_call c, int64_t *found_count, slc_error *error) {
	if (isa < 0 || isa >= SLC_ISAS || !table[isa])
		FAIL(SLC_ERROR_ISA, "instruction set %d is not in this build", (int)isa);
	if (c.panels < 0 || c.panels > SLC_SCAN_PANELS || c.sections < 1 || c.sections > SLC_SCAN_SECTIONS ||
	    c.queries < 1 || c.queries > SLC_SCAN_QUERIES || c.room < c.queries)
		FAIL(SLC_ERROR_SHAPE, "scan of %lld panels, %lld sections, %lld queries; at most %d, %d, %d",
		     (long long)c.panels, (long long)c.sections, (long long)c.queries, SLC_SCAN_PANELS, SLC_SCAN_SECTIONS,
		     SLC_SCAN_QUERIES);
	if (c.step_count < 1 || c.first < 1 || c.first > c.step_count || !c.steps ||
	    !in_order(c.steps, c.step_count, c.sections))
		FAIL(SLC_ERROR_SHAPE, "scan of %lld planes, %lld at first, not in order", (long long)c.step_count,
		     (long long)c.first);
	if (c.biased && (!c.bias || !c.lift)) FAIL(SLC_ERROR_SHAPE, "scan: biased queries without biases");
	if (!c.codes || !c.meta || !c.q8 || !c.sums || !c.weights || !c.need || !c.acc || !c.found || !c.bounds ||
	    !c.alive || !found_count)
		FAIL(SLC_ERROR_SHAPE, "scan: null pointer");
	*found_count = table[isa](&c);
	return SLC_OK;
}
