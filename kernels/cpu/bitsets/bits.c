//go:build amd64 || arm64

// Checks that a program's steps stay within its sets, then calls the kernel for the instruction set.
#include "bits.h"
#include "fail.h"

static slc_bits_fn *const table[SLC_ISAS] = {
	[SLC_SCALAR] = slc_bits_scalar,
#if defined(__x86_64__)
	[SLC_AVX2] = slc_bits_avx2, [SLC_AVXVNNI] = slc_bits_avx2,
	[SLC_AVX512] = slc_bits_avx512, [SLC_AVX512VNNI] = slc_bits_avx512, [SLC_AMX] = slc_bits_avx512,
#elif defined(__aarch64__) // the baseline is NEON
	[SLC_NEON] = slc_bits_scalar, [SLC_DOTPROD] = slc_bits_scalar, [SLC_I8MM] = slc_bits_scalar,
	[SLC_BFMMLA] = slc_bits_scalar,
#endif
};

int32_t slc_bits(int32_t isa, uint64_t *words, int64_t sets, const slc_bits_step *steps, int64_t n, int64_t *count,
                 slc_error *error) {
	if (isa < 0 || isa >= SLC_ISAS || !table[isa])
		FAIL(SLC_ERROR_ISA, "instruction set %d is not in this build", (int)isa);
	if (n < 0 || sets < n) FAIL(SLC_ERROR_SHAPE, "bits: %lld steps write %lld sets", (long long)n, (long long)sets);
	const int64_t first = sets - n;
	for (int64_t i = 0; i < n; i++) {
		// as unsigned numbers, negative ones are too large
		const uint32_t before = (uint32_t)(first + i < INT32_MAX ? first + i : INT32_MAX);
		if (((uint32_t)steps[i].set >= before) | ((uint32_t)steps[i].both >= before) |
		    ((uint32_t)steps[i].either >= before))
			FAIL(SLC_ERROR_SHAPE, "bits: step %lld reads sets %d, %d and %d, and writes set %lld", (long long)i,
			     (int)steps[i].set, (int)steps[i].both, (int)steps[i].either, (long long)(first + i));
	}
	*count = table[isa](words, first, steps, n);
	return SLC_OK;
}
