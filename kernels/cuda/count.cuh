// Counting: what kernels/cpu.Count says, for tiles in the registers of a block.
#ifndef SLC_COUNT_CUH
#define SLC_COUNT_CUH

#include "tiles.cuh"

namespace slc {

enum { kBrackets = 12, kSharedBins = 1024 };

// What is looked for.
struct Look {
	float low[kBrackets], high[kBrackets], min, max, margin, bin_low, bin_scale;
	int32_t brackets, cross_group, best, l2;
};

// What is found. Sums are in units of 2^-30, in three parts that add up with carries: of 32, 32 and 64 bits.
struct Found {
	uint64_t counted, below[kBrackets], kept, other, all, sum[3], sum2[3];
	uint32_t overflow, unused;
};

// A pair that is kept, as kernels/cpu.Entry.
struct Entry {
	float value;
	uint32_t at;
};

// Where a call's labels and results lie. Labels and the best values are those of the call's columns and rows, own is
// the number of a row of the whole set, or -1. best_other and best_all are in the order of unsigned integers.
struct Counting {
	const Look *look;
	Found *found;
	const int32_t *own, *row_group, *column_group;
	uint32_t *best_other, *best_all;
	Entry *kept, *other, *all;
	int64_t kept_room, other_room, all_room;
	uint64_t *bins;
	int64_t n_bins;
};

// Shared memory of a block beside the stages of the multiplication, which it reuses.
struct CountShared {
	uint64_t counted, below[kBrackets], sum[3], sum2[3];
	uint32_t overflow;
	uint32_t best[kTileSide]; // of the block's columns, pairs that are not near
	uint32_t bins[kSharedBins];
};

// append writes the marked values of all lanes of a warp behind what the list has, while there is room.
template <class M> SLC_FN void append(uint32_t marks, const float *v, int first, int64_t row0, int64_t column0,
		Entry *list, int64_t room, uint64_t *count) {
	const int lane = (int)(threadIdx.x % 32), mine = count_bits(marks);
	int before = mine; // inclusive prefix sum over the lanes
	for (int d = 1; d < 32; d *= 2) {
		const int other = shuffle(before, (lane + 32 - d) % 32);
		if (lane >= d) before += other;
	}
	const int total = shuffle(before, 31);
	if (total == 0) return;
	uint64_t base = 0;
	if (lane == 0) base = atomic_add(count, (uint64_t)total);
	base = shuffle(base, 0);
	int64_t at = (int64_t)base + before - mine;
	SLC_UNROLL
	for (int i = 0; i < 32; i++) {
		if (!(marks >> i & 1)) continue;
		if (at < room) {
			const int64_t row = row0 + M::row(lane, first + i), column = column0 + M::column(lane, first + i);
			list[at].value = v[i];
			list[at].at = (uint32_t)(row << 16 | column);
		}
		at++;
	}
}

// add_units adds x, in units of 2^-30, to a sum.
SLC_FN void add_units(uint64_t *sum, uint32_t *overflow, double x) {
	const double units = rint(x * (1 << 30));
	if (!(fabs(units) < 0x1p62)) {
		atomic_or(overflow, 1);
		return;
	}
	const int64_t n = (int64_t)units;
	atomic_add(&sum[0], (uint64_t)n & 0xffffffffu);
	atomic_add(&sum[1], (uint64_t)n >> 32 & 0xffffffffu);
	atomic_add(&sum[2], (uint64_t)(n >> 63));
}

// negatives counts the pairs of a panel's 32 x 32 values for which mask is set, of which this lane has 32.
template <class M> SLC_FN void negatives(const Counting &c, CountShared *s, const float *v, int first, uint32_t mask,
		int64_t row0, int64_t column0) {
	const Look &look = *c.look;
	uint32_t keep = 0;
	double sum = 0, sum2 = 0;
	float part = 0, part2 = 0;
	SLC_UNROLL
	for (int i = 0; i < 32; i++) {
		const uint32_t bit = 1u << i;
		const float x = look.l2 ? (float)sqrt(most(-2 * (double)v[i], 0.0)) : v[i];
		if (v[i] <= look.min || v[i] >= look.max) keep |= bit;
		if (mask & bit) part += x, part2 += x * x;
		if (c.n_bins > 0 && (mask & bit)) {
			const float bin = (x - look.bin_low) * look.bin_scale;
			const int64_t at = (int64_t)most(least(bin, (float)(c.n_bins - 1)), 0.0f);
			if (c.n_bins <= kSharedBins)
				atomic_add32(&s->bins[at], 1);
			else
				atomic_add(&c.bins[at], 1);
		}
	}
	sum = warp_sum(part), sum2 = warp_sum(part2);
	for (int b = 0; b < look.brackets; b++) {
		const float low = look.low[b], high = look.high[b];
		uint32_t below = 0;
		SLC_UNROLL
		for (int i = 0; i < 32; i++) {
			const uint32_t bit = 1u << i;
			if (v[i] < low) below |= bit;
			if (v[i] >= low && v[i] <= high) keep |= bit;
		}
		const int n = warp_total(count_bits(below & mask));
		if (threadIdx.x % 32 == 0 && n > 0) atomic_add(&s->below[b], (uint64_t)n);
	}
	const int counted = warp_total(count_bits(mask));
	if (threadIdx.x % 32 == 0) {
		atomic_add(&s->counted, (uint64_t)counted);
		add_units(s->sum, &s->overflow, sum);
		add_units(s->sum2, &s->overflow, sum2);
	}
	append<M>(keep & mask, v, first, row0, column0, c.kept, c.kept_room, &c.found->kept);
}

// count goes over a block's tile.
template <class M> SLC_FN void count(const Side &rows, const Side &columns, const Counting &c) {
	const int64_t row = rows.from + (int64_t)blockIdx.y * kTilePanels,
		column = columns.from + (int64_t)blockIdx.x * kTilePanels;
	float v[kLaneValues];
	tile_values<M>(v, rows, row, columns, column, slc_dynamic);

	CountShared *s = (CountShared *)slc_dynamic;
	for (int at = (int)threadIdx.x; at < (int)(sizeof *s / 4); at += kTileThreads) ((uint32_t *)s)[at] = 0;
	sync_block();

	const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
	const int64_t row0 = (row + warp / 2 - rows.from) * kPanel, // of the warp, from the call's first
		column0 = (column + warp % 2 * 2 - columns.from) * kPanel;
	const int64_t row_end = least(rows.n, rows.to * kPanel) - rows.from * kPanel,
		column_end = least(columns.n, columns.to * kPanel) - columns.from * kPanel;
	uint32_t counted[2] = {0, 0}, far[2] = {0, 0}, near[2] = {0, 0};
	SLC_UNROLL
	for (int i = 0; i < kLaneValues; i++) {
		const int64_t r = row0 + M::row(lane, i), q = column0 + M::column(lane, i);
		if (r >= row_end || q >= column_end) continue;
		const bool own = c.own[q] == r + rows.from * kPanel;
		const bool is_near = own || (c.row_group && c.row_group[r] == c.column_group[q]);
		const uint32_t bit = 1u << (i % 32);
		if (!own && !(is_near && c.look->cross_group)) counted[i / 32] |= bit;
		(is_near ? near : far)[i / 32] |= bit;
	}
	SLC_UNROLL
	for (int p = 0; p < 2; p++) negatives<M>(c, s, v + 32 * p, 32 * p, counted[p], row0, column0);

	if (c.look->best) {
		// First the block's largest values of each column, then the largest of all so far, then candidates: fewer pairs come
		// within the margin of a best value that is already high.
		SLC_UNROLL
		for (int i = 0; i < kLaneValues; i++)
			if (far[i / 32] >> (i % 32) & 1) atomic_max(&s->best[warp % 2 * 64 + M::column(lane, i)], ordered(v[i]));
		sync_block();
		const int64_t first = (column - columns.from) * kPanel;
		for (int at = (int)threadIdx.x; at < kTileSide; at += kTileThreads)
			if (first + at < column_end) {
				const uint32_t mine = s->best[at];
				s->best[at] = most(mine, atomic_max(&c.best_other[first + at], mine));
			}
		sync_block();
		uint32_t marks[2] = {0, 0}, near_marks[2] = {0, 0};
		SLC_UNROLL
		for (int i = 0; i < kLaneValues; i++) {
			const uint32_t bit = 1u << (i % 32);
			if (far[i / 32] & bit) {
				const float best = unordered(s->best[warp % 2 * 64 + M::column(lane, i)]);
				if (v[i] >= best - c.look->margin) marks[i / 32] |= bit;
			}
			if (near[i / 32] & bit) {
				uint32_t *at = &c.best_all[column0 + M::column(lane, i)];
				const uint32_t best = most(atomic_max(at, ordered(v[i])), ordered(v[i]));
				if (v[i] >= unordered(best) - c.look->margin) near_marks[i / 32] |= bit;
			}
		}
		SLC_UNROLL
		for (int p = 0; p < 2; p++) {
			append<M>(marks[p], v + 32 * p, 32 * p, row0, column0, c.other, c.other_room, &c.found->other);
			append<M>(near_marks[p], v + 32 * p, 32 * p, row0, column0, c.all, c.all_room, &c.found->all);
		}
	}
	sync_block();

	Found *found = c.found;
	if (threadIdx.x < kBrackets) atomic_add(&found->below[threadIdx.x], s->below[threadIdx.x]);
	if (threadIdx.x < 3) {
		atomic_add(&found->sum[threadIdx.x], s->sum[threadIdx.x]);
		atomic_add(&found->sum2[threadIdx.x], s->sum2[threadIdx.x]);
	}
	if (threadIdx.x == 0) {
		atomic_add(&found->counted, s->counted);
		if (s->overflow) atomic_or(&found->overflow, 1);
	}
	if (c.n_bins > 0 && c.n_bins <= kSharedBins)
		for (int at = (int)threadIdx.x; at < c.n_bins; at += kTileThreads)
			if (s->bins[at]) atomic_add(&c.bins[at], s->bins[at]);
}

} // namespace slc
#endif
