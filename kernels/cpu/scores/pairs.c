//go:build amd64 || arm64

// Checks the arguments that could make a kernel read out of bounds, then calls it by instruction set.
#include "fail.h"
#include "pairs.h"

static const struct {
	slc_pairs_fn *pairs, *estimate;
	slc_sum_fn *sum;
} table[SLC_ISAS] = {
#define OF(isa) {slc_pairs_f32_##isa, slc_estimate_f32_##isa, slc_sum_f32_##isa}
	[SLC_SCALAR] = OF(scalar),
#if defined(__x86_64__)
	[SLC_AVX2] = OF(avx2), [SLC_AVXVNNI] = OF(avx2),
	[SLC_AVX512] = OF(avx512), [SLC_AVX512VNNI] = OF(avx512), [SLC_AMX] = OF(avx512),
#elif defined(__aarch64__)
	[SLC_NEON] = OF(neon), [SLC_DOTPROD] = OF(neon), [SLC_I8MM] = OF(neon),
	[SLC_BFMMLA] = OF(neon),
#endif
};

static int32_t check(int32_t isa, const char *name, slc_rows r, int64_t dim, const int32_t *list, int64_t n,
                     slc_error *error) {
	if (isa < 0 || isa >= SLC_ISAS || !table[isa].pairs)
		FAIL(SLC_ERROR_ISA, "instruction set %d is not in this build", (int)isa);
	if (r.n < 0 || dim < 0 || r.stride < dim || n < 0)
		FAIL(SLC_ERROR_SHAPE, "%s: %lld rows of %lld elements with stride %lld", name, (long long)r.n, (long long)dim,
		     (long long)r.stride);
	for (int64_t i = 0; list && i < n; i++)
		if (list[i] < 0 || list[i] >= r.n)
			FAIL(SLC_ERROR_SHAPE, "%s: entry %lld names row %d of %lld", name, (long long)i, (int)list[i],
			     (long long)r.n);
	return SLC_OK;
}

int32_t slc_pairs(int32_t isa, int32_t metric, slc_rows a, const int32_t *row_a, slc_rows b, const int32_t *row_b,
                  int64_t dim, int64_t n, double *out, slc_error *error) {
	int32_t code;
	if ((code = check(isa, "a", a, dim, row_a, n, error)) || (code = check(isa, "b", b, dim, row_b, n, error)))
		return code;
	if (n > 0 && (!row_b || (!row_a && a.n < 1))) FAIL(SLC_ERROR_SHAPE, "pairs without rows");
	if (metric < 0 || metric >= SLC_METRICS) FAIL(SLC_ERROR_METRIC, "metric %d", (int)metric);
	if (metric == SLC_COSINE && n > 0 && (!a.norms || !b.norms))
		FAIL(SLC_ERROR_SHAPE, "cosine needs the norms of both sides");
	slc_pair_list list = {a.data, b.data, a.stride, b.stride, dim, n, a.norms, b.norms, row_a, row_b, out, 0};
	table[isa].pairs(&list, metric);
	return SLC_OK;
}

int32_t slc_estimate(int32_t isa, int32_t metric, slc_rows a, const int32_t *row_a, slc_rows b, const int32_t *row_b,
                     int64_t dim, int64_t n, float *out, slc_error *error) {
	int32_t code;
	if ((code = check(isa, "a", a, dim, row_a, n, error)) || (code = check(isa, "b", b, dim, row_b, n, error)))
		return code;
	if (n > 0 && (!row_a || !row_b)) FAIL(SLC_ERROR_SHAPE, "pairs without rows");
	slc_pair_list list = {a.data, b.data, a.stride, b.stride, dim, n, 0, 0, row_a, row_b, 0, out};
	table[isa].estimate(&list, metric);
	return SLC_OK;
}

int32_t slc_sum(int32_t isa, slc_rows a, int64_t dim, const double *factor, const int32_t *rows, int64_t n,
                int64_t *out, slc_error *error) {
	int32_t code = check(isa, "a", a, dim, rows, n, error);
	if (code) return code;
	if (n > 0 && !rows) FAIL(SLC_ERROR_SHAPE, "sum without rows");
	table[isa].sum(a.data, a.stride, dim, factor, rows, n, out);
	return SLC_OK;
}
