//go:build amd64 || arm64

// Checks what would make a tile kernel read or write astray, then calls it by instruction set and format.
#include "fail.h"
#include <string.h>
#include "tiles.h"

static slc_tiles_fn *const table[SLC_ISAS][SLC_DTYPES] = {
	[SLC_SCALAR] = {slc_tiles_f32_scalar},
#if defined(__x86_64__)
	[SLC_AVX2] = {[SLC_F32] = slc_tiles_f32_avx2, [SLC_I16] = slc_tiles_i16_avx2},
	[SLC_AVX512] = {[SLC_F32] = slc_tiles_f32_avx512},
	[SLC_AVX512VNNI] = {[SLC_F32] = slc_tiles_f32_avx512, [SLC_I16] = slc_tiles_i16_avx512vnni,
	                    [SLC_I8] = slc_tiles_i8_avx512vnni},
#if defined(SLC_WITH_AMX)
	[SLC_AMX] = {slc_tiles_f32_amx, slc_tiles_bf16x3_amx, slc_tiles_bf16_amx, slc_tiles_i8_amx},
#endif
#endif
};

static int32_t check(int32_t isa, int32_t dtype, const slc_tiles *t, slc_error *error) {
	if (slc_panel_bytes(isa, dtype, t->dim) < 0)
		FAIL(SLC_ERROR_ISA, "no tiles of format %d for instruction set %d", (int)dtype, (int)isa);
	const slc_side *sides[] = {&t->rows, &t->columns};
	for (int i = 0; i < 2; i++) {
		const slc_side *s = sides[i];
		if (!s->data || s->from < 0 || s->to < s->from || (s->to > s->from && (s->to - 1) * SLC_PANEL >= s->n))
			FAIL(SLC_ERROR_SHAPE, "panels %lld to %lld of %lld vectors", (long long)s->from, (long long)s->to,
			     (long long)s->n);
		if ((dtype == SLC_I8 || dtype == SLC_I16) && !s->steps) FAIL(SLC_ERROR_SHAPE, "codes without steps");
		if (dtype == SLC_I8 && i == 1 && !s->sums) FAIL(SLC_ERROR_SHAPE, "i8 without sums");
	}
	if (t->dim < 1 || t->block < 1 || !t->rows.terms != !t->columns.terms)
		FAIL(SLC_ERROR_SHAPE, "dimension %lld, block %lld", (long long)t->dim, (long long)t->block);
	return SLC_OK;
}

static __int128 joined(slc_sum128 s) { return (__int128)((unsigned __int128)(uint64_t)s.hi << 64 | s.lo); }

static slc_sum128 split(__int128 s) { return (slc_sum128){(int64_t)(s >> 64), (uint64_t)s}; }

int32_t slc_count(int32_t isa, int32_t dtype, int64_t dim, int64_t block, const void *rows, const float *row_terms,
                  const float *row_steps, int64_t n_rows, int64_t row0, int64_t row1, const void *columns,
                  const float *column_terms, const float *column_steps, const int32_t *column_sums, int64_t n_columns,
                  int64_t column0, int64_t column1, const float *low, const float *high, int32_t brackets, float min,
                  float max, float margin, const int32_t *own, const int32_t *row_group, const int32_t *column_group,
                  int32_t cross_group, int32_t best, float bin_low, float bin_scale, int64_t *bins, int64_t n_bins,
                  slc_entry *kept, int64_t kept_capacity, slc_entry *other, int64_t other_capacity, slc_entry *all,
                  int64_t all_capacity, float *best_other, float *best_all, slc_found *found, slc_error *error) {
	slc_counter c = {
		.min = min, .max = max, .margin = margin, .brackets = brackets, .cross_group = cross_group, .best = best,
		.l2 = row_terms != 0, .own = own, .row_group = row_group, .column_group = column_group, .bin_low = bin_low,
		.bin_scale = bin_scale, .bins = bins, .n_bins = n_bins, .kept = {kept, 0, kept_capacity, 0},
		.other = {other, 0, other_capacity, 0}, .all = {all, 0, all_capacity, 0}, .best_other = best_other,
		.best_all = best_all, .sum = joined(found->sum), .sum2 = joined(found->sum2),
	};
	slc_tiles t = {
		{rows, row_terms, row_steps, 0, n_rows, row0, row1},
		{columns, column_terms, column_steps, column_sums, n_columns, column0, column1}, dim, block, &c, 0,
	};
	int32_t code = check(isa, dtype, &t, error);
	if (code) return code;
	if (brackets < 0 || brackets > SLC_BRACKETS)
		FAIL(SLC_ERROR_SHAPE, "%d brackets, at most %d", (int)brackets, SLC_BRACKETS);
	if (row1 - row0 > SLC_MAX_PANELS || column1 - column0 > SLC_MAX_PANELS)
		FAIL(SLC_ERROR_SHAPE, "more than %d panels a side", SLC_MAX_PANELS);
	for (int b = 0; b < SLC_BRACKETS; b++) {
		c.low[b] = b < brackets ? low[b] : __builtin_inff();
		c.high[b] = b < brackets ? high[b] : -__builtin_inff();
	}
	table[isa][dtype](&t);
	if (c.overflow) FAIL(SLC_ERROR_RANGE, "a sum of values beyond 128 bits, or of a tile beyond 62");
	found->sum = split(c.sum), found->sum2 = split(c.sum2);
	found->counted = c.counted;
	found->kept = c.kept.count, found->other = c.other.count, found->all = c.all.count;
	found->full = c.kept.full | c.other.full << 1 | c.all.full << 2;
	memcpy(found->above, c.above, sizeof c.above);
	return SLC_OK;
}

int32_t slc_matrix(int32_t isa, int32_t dtype, int64_t dim, int64_t block, const void *rows, const float *row_terms,
                   const float *row_steps, int64_t n_rows, int64_t row0, int64_t row1, const void *columns,
                   const float *column_terms, const float *column_steps, const int32_t *column_sums, int64_t n_columns,
                   int64_t column0, int64_t column1, float *out, int64_t stride, float factor, int32_t l2,
                   int32_t stream, slc_error *error) {
	slc_writer w = {out, stride, factor, l2, stream};
	slc_tiles t = {
		{rows, row_terms, row_steps, 0, n_rows, row0, row1},
		{columns, column_terms, column_steps, column_sums, n_columns, column0, column1}, dim, block, 0, &w,
	};
	int32_t code = check(isa, dtype, &t, error);
	if (code) return code;
	w.stream = stream && (uintptr_t)out % 64 == 0 && stride % 16 == 0;
	table[isa][dtype](&t);
	return SLC_OK;
}
