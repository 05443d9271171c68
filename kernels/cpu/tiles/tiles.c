//go:build amd64 || arm64

// Checks what could make a tile kernel access memory out of bounds, then calls it by instruction set and format.
#include "fail.h"
#include <string.h>
#include "tiles.h"

static slc_tiles_fn *const table[SLC_ISAS][SLC_DTYPES] = {
	[SLC_SCALAR] = {slc_tiles_f32_scalar},
#if defined(__x86_64__)
	[SLC_AVX2] = {[SLC_F32] = slc_tiles_f32_avx2, [SLC_I16] = slc_tiles_i16_avx2},
	[SLC_AVXVNNI] = {[SLC_F32] = slc_tiles_f32_avx2, [SLC_I16] = slc_tiles_i16_avxvnni},
	[SLC_AVX512] = {[SLC_F32] = slc_tiles_f32_avx512},
	[SLC_AVX512VNNI] = {[SLC_F32] = slc_tiles_f32_avx512, [SLC_I16] = slc_tiles_i16_avx512vnni,
	                    [SLC_I8] = slc_tiles_i8_avx512vnni},
#if defined(SLC_WITH_AMX)
	[SLC_AMX] = {slc_tiles_f32_amx, slc_tiles_bf16x3_amx, slc_tiles_bf16_amx, slc_tiles_i8_amx},
#endif
#elif defined(__aarch64__)
	[SLC_NEON] = {slc_tiles_f32_neon},
	[SLC_DOTPROD] = {[SLC_F32] = slc_tiles_f32_neon, [SLC_I8] = slc_tiles_i8_dotprod},
	[SLC_I8MM] = {[SLC_F32] = slc_tiles_f32_neon, [SLC_I8] = slc_tiles_i8_i8mm},
	[SLC_BFMMLA] = {slc_tiles_f32_neon, slc_tiles_bf16x3_bf16, slc_tiles_bf16_bf16, slc_tiles_i8_i8mm},
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

int32_t slc_count(int32_t isa, int32_t dtype, slc_tiles t, slc_counting q, slc_found *found, slc_error *error) {
	slc_counter c = {
		.min = q.min, .max = q.max, .margin = q.margin, .brackets = q.brackets, .cross_group = q.cross_group,
		.best = q.best, .l2 = t.rows.terms != 0, .own = q.own, .row_group = q.row_group,
		.column_group = q.column_group, .bin_low = q.bin_low, .bin_scale = q.bin_scale, .bins = q.bins,
		.last_bin = (float)(q.n_bins - 1), .kept = q.kept, .other = q.other, .all = q.all, .best_other = q.best_other,
		.best_all = q.best_all, .sum = joined(found->sum), .sum2 = joined(found->sum2),
	};
	t.count = &c;
	int32_t code = check(isa, dtype, &t, error);
	if (code) return code;
	if (q.n_bins > INT32_MAX) FAIL(SLC_ERROR_SHAPE, "%lld bins, at most %d", (long long)q.n_bins, INT32_MAX);
	if ((int64_t)c.last_bin >= q.n_bins) c.last_bin = __builtin_nextafterf(c.last_bin, 0);
	if (q.brackets < 0 || q.brackets > SLC_BRACKETS)
		FAIL(SLC_ERROR_SHAPE, "%d brackets, at most %d", (int)q.brackets, SLC_BRACKETS);
	if (t.rows.to - t.rows.from > SLC_MAX_PANELS || t.columns.to - t.columns.from > SLC_MAX_PANELS)
		FAIL(SLC_ERROR_SHAPE, "more than %d panels a side", SLC_MAX_PANELS);
	for (int b = 0; b < SLC_BRACKETS; b++) {
		c.low[b] = b < q.brackets ? q.low[b] : __builtin_inff();
		c.high[b] = b < q.brackets ? q.high[b] : -__builtin_inff();
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

int32_t slc_matrix(int32_t isa, int32_t dtype, slc_tiles t, slc_writer w, slc_error *error) {
	t.write = &w;
	int32_t code = check(isa, dtype, &t, error);
	if (code) return code;
	w.stream = w.stream && (uintptr_t)w.out % 64 == 0 && w.stride % 16 == 0;
	table[isa][dtype](&t);
	return SLC_OK;
}
