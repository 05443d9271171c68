//go:build amd64 || arm64

// Checks the arguments of an attention.
#include "attention.h"
#include "fail.h"
#include "linear.h"

typedef struct {
	slc_attention_fn *f32;
	int64_t panel, block; // columns and rows of a register block
} kernels;

static const kernels table[SLC_ISAS] = {
	[SLC_SCALAR] = {slc_attention_f32_scalar, 8, 4},
#if defined(__x86_64__)
	[SLC_AVX2] = {slc_attention_f32_avx2, 16, 6}, [SLC_AVXVNNI] = {slc_attention_f32_avx2, 16, 6},
	[SLC_AVX512] = {slc_attention_f32_avx512, 32, 12}, [SLC_AVX512VNNI] = {slc_attention_f32_avx512, 32, 12},
	[SLC_AMX] = {slc_attention_f32_avx512, 32, 12},
#elif defined(__aarch64__)
	[SLC_NEON] = {slc_attention_f32_neon, 16, 6}, [SLC_DOTPROD] = {slc_attention_f32_neon, 16, 6},
	[SLC_I8MM] = {slc_attention_f32_neon, 16, 6}, [SLC_BFMMLA] = {slc_attention_f32_neon, 16, 6},
#endif
};

static slc_attention_fn *const tiles[SLC_LINEAR_ISAS] = {
#if defined(SLC_WITH_AMX)
	[SLC_AMX] = slc_attention_bf16_amx, [SLC_AMX_EMULATED] = slc_attention_bf16_amx_emulated,
#else
	NULL,
#endif
};

static int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

int64_t slc_attention_scratch_bf16(int32_t isa, int64_t longest, int64_t size) {
	if (isa < 0 || isa >= SLC_LINEAR_ISAS || !tiles[isa]) return 0;
	const int64_t keys = up(longest, 32), depth = up(size, 32);
	// bfloat16: the keys, the values, and the queries and weights of a part of 16 queries (attention_bf16_body.h);
	// floats: the scores of two parts, a block of sums, and padding for alignment to a cache line.
	const int64_t rounded = keys * depth + keys * up(size, 16) + 16 * depth + 16 * keys;
	return rounded / 2 + 2 * 16 * keys + 16 * 32 + 16;
}

int64_t slc_attention_scratch(int32_t isa, int64_t longest, int64_t size) {
	if (isa < 0 || isa >= SLC_ISAS || !table[isa].f32) return 0;
	const int64_t panel = table[isa].panel, keys = up(longest, panel);
	// Keys and values in panels, the weights of a block of queries, and the current block of sums.
	return keys * size + longest * up(size, panel) + table[isa].block * (keys + panel);
}

static int32_t attend(slc_attention_fn *f, const slc_attention *a, slc_error *error) {
	if (!f) FAIL(SLC_ERROR_ISA, "attention: this instruction set is not in this build");
	if (a->heads < 1 || a->size < 1 || a->stride < 3 * a->heads * a->size || a->y_stride < a->heads * a->size)
		FAIL(SLC_ERROR_SHAPE, "attention: %lld heads of %lld values with strides %lld and %lld", (long long)a->heads,
		     (long long)a->size, (long long)a->stride, (long long)a->y_stride);
	if (a->first < 0 || a->first > a->last || a->first_head < 0 || a->first_head > a->last_head ||
	    a->last_head > a->heads)
		FAIL(SLC_ERROR_SHAPE, "attention: texts %lld to %lld, heads %lld to %lld of %lld", (long long)a->first,
		     (long long)a->last, (long long)a->first_head, (long long)a->last_head, (long long)a->heads);
	for (int64_t i = a->first; i < a->last; i++)
		if (a->starts[i] < 0 || a->starts[i] > a->starts[i + 1] ||
		    (a->bias && a->starts[i + 1] - a->starts[i] > a->far + 1))
			FAIL(SLC_ERROR_SHAPE, "attention: text %lld is the rows %lld to %lld", (long long)i,
			     (long long)a->starts[i], (long long)a->starts[i + 1]);
	f(a);
	return SLC_OK;
}

int32_t slc_attention_f32(int32_t isa, const slc_attention *a, slc_error *error) {
	return attend(isa < 0 || isa >= SLC_ISAS ? NULL : table[isa].f32, a, error);
}

int32_t slc_attention_bf16(int32_t isa, const slc_attention *a, slc_error *error) {
	return attend(isa < 0 || isa >= SLC_LINEAR_ISAS ? NULL : tiles[isa], a, error);
}
