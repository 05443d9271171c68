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

// append writes the marked values of all lanes of a warp behind what the list has, while there is room. place is where
// the lane's first pair is.
template <class M> SLC_FN void append(uint32_t marks, const float v[32], uint32_t place, Entry *list,
		int64_t room, uint64_t *count) {
	const int lane = (int)(threadIdx.x % 32), mine = count_bits(marks);
	int before = mine; // inclusive prefix sum over the lanes
	SLC_UNROLL
	for (int d = 1; d < 32; d *= 2) {
		const int other = shuffle(before, (lane + 32 - d) % 32);
		if (lane >= d) before += other;
	}
	const int total = shuffle(before, 31);
	if (total == 0) return;
	uint64_t base = 0;
	if (lane == 0) base = atomic_add(count, (uint64_t)total);
	base = shuffle(base, 0) + (uint64_t)(before - mine);
	const int left = base < (uint64_t)room ? (int)min((uint64_t)room - base, (uint64_t)32) : 0;
	Entry *to = list + base;
	int at = 0;
	SLC_UNROLL
	for (int i = 0; i < 32; i++) {
		if (!(marks >> i & 1)) continue;
		if (at < left) {
			const Entry e = {v[i], place + (uint32_t)(M::row(lane, M::row_of(i)) << 16) +
				(uint32_t)M::column(lane, M::column_of(i))};
			to[at] = e;
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

// enter_bins enters the marked values into the histogram.
SLC_FN void enter_bins(const Counting &c, CountShared *s, const float v[32], uint32_t mask) {
	const Look &look = *c.look;
	SLC_UNROLL
	for (int i = 0; i < 32; i++) {
		if (!(mask >> i & 1)) continue;
		const float x = look.l2 ? square_root(max(-2 * v[i], 0.0f)) : v[i];
		const float bin = (x - look.bin_low) * look.bin_scale;
		const int at = (int)max(min(bin, (float)(c.n_bins - 1)), 0.0f);
		if (c.n_bins <= kSharedBins)
			atomic_add32(&s->bins[at], 1);
		else
			atomic_add(&c.bins[at], 1);
	}
}

// negatives counts the pairs of a panel's 32 x 32 values for which mask is set, of which this lane has 32. Sums are
// rounded once for the panel, or for each of M::kSums parts of the lane's values.
template <class M> SLC_FN void negatives(const Counting &c, CountShared *s, const float v[32], uint32_t mask,
		uint32_t place) {
	const Look &look = *c.look;
	uint32_t keep = 0;
	enum { kSums = M::kSums };
	float part[kSums], part2[kSums];
	SLC_UNROLL
	for (int u = 0; u < kSums; u++) part[u] = part2[u] = 0;
	const bool l2 = look.l2 != 0;
	const float lowest = look.min, highest = look.max;
	SLC_UNROLL
	for (int i = 0; i < 32; i++) {
		const uint32_t bit = 1u << i;
		const float x = l2 ? square_root(max(-2 * v[i], 0.0f)) : v[i];
		if (v[i] <= lowest || v[i] >= highest) keep |= bit;
		if (mask & bit) part[i * kSums / 32] += x, part2[i * kSums / 32] += x * x;
	}
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
	SLC_UNROLL
	for (int u = 0; u < kSums; u++) {
		const double sum = warp_sum(part[u]), sum2 = warp_sum(part2[u]);
		if (threadIdx.x % 32 != 0) continue;
		add_units(s->sum, &s->overflow, sum);
		add_units(s->sum2, &s->overflow, sum2);
	}
	const int counted = warp_total(count_bits(mask));
	if (threadIdx.x % 32 == 0) atomic_add(&s->counted, (uint64_t)counted);
	if (c.n_bins > 0) enter_bins(c, s, v, mask);
	append<M>(keep & mask, v, place, c.kept, c.kept_room, &c.found->kept);
}

// Classes of the values that a lane has of a panel, a bit each.
struct Classes {
	uint32_t counted, far, near;
};

// classify tells them by owners and groups; row and column are the panel's first, from the call's first.
template <class M> SLC_FN Classes classify(const Counting &c, int row, int column, int row_end, int column_end,
		int row_base) {
	const int lane = (int)(threadIdx.x % 32);
	const bool cross = c.look->cross_group != 0, groups = c.row_group != 0;
	int own[M::kColumns], column_group[M::kColumns], row_group[M::kRows]; // own: the row of the call, or another number
	SLC_UNROLL
	for (int j = 0; j < M::kColumns; j++) {
		const int q = column + M::column(lane, j);
		own[j] = q < column_end ? c.own[q] - row_base : -1;
		column_group[j] = groups && q < column_end ? c.column_group[q] : 0;
	}
	SLC_UNROLL
	for (int j = 0; j < M::kRows; j++) {
		const int r = row + M::row(lane, j);
		row_group[j] = groups && r < row_end ? c.row_group[r] : 0;
	}
	Classes k = {0, 0, 0};
	SLC_UNROLL
	for (int i = 0; i < 32; i++) {
		const int r = row + M::row(lane, M::row_of(i)), q = column + M::column(lane, M::column_of(i));
		const bool in = r < row_end && q < column_end, is_own = own[M::column_of(i)] == r;
		const bool is_near = is_own || (groups && row_group[M::row_of(i)] == column_group[M::column_of(i)]);
		const uint32_t bit = 1u << i;
		if (in && !is_own && !(is_near && cross)) k.counted |= bit;
		if (in && is_near) k.near |= bit;
		if (in && !is_near) k.far |= bit;
	}
	return k;
}

// column_maxima takes the largest far values of a panel's columns into the block's.
template <class M> SLC_FN void column_maxima(uint32_t *best, const float v[32], uint32_t far) {
	const int lane = (int)(threadIdx.x % 32);
	uint32_t largest[M::kColumns];
	SLC_UNROLL
	for (int j = 0; j < M::kColumns; j++) largest[j] = 0;
	SLC_UNROLL
	for (int i = 0; i < 32; i++)
		if (far >> i & 1) largest[M::column_of(i)] = max(largest[M::column_of(i)], ordered(v[i]));
	SLC_UNROLL
	for (int j = 0; j < M::kColumns; j++) atomic_max(&best[M::column(lane, j)], largest[j]);
}

// candidates marks the values within the margin of their columns' best ones, and takes part in those of near pairs.
template <class M> SLC_FN void candidates(const Counting &c, const uint32_t *best, const float v[32], Classes k,
		int column, uint32_t place) {
	const int lane = (int)(threadIdx.x % 32);
	const float margin = c.look->margin;
	uint32_t marks = 0, near_marks = 0;
	float from[M::kColumns];
	SLC_UNROLL
	for (int j = 0; j < M::kColumns; j++) from[j] = unordered(best[M::column(lane, j)]) - margin;
	SLC_UNROLL
	for (int i = 0; i < 32; i++)
		if (v[i] >= from[M::column_of(i)]) marks |= 1u << i;
	append<M>(marks & k.far, v, place, c.other, c.other_room, &c.found->other);
	if (k.near != 0) {
		SLC_UNROLL
		for (int i = 0; i < 32; i++) {
			if (!(k.near >> i & 1)) continue;
			const uint32_t mine = ordered(v[i]);
			uint32_t *at = &c.best_all[column + M::column(lane, M::column_of(i))];
			if (v[i] >= unordered(max(atomic_max(at, mine), mine)) - margin) near_marks |= 1u << i;
		}
	}
	sync_warp();
	append<M>(near_marks, v, place, c.all, c.all_room, &c.found->all);
}

// give_back adds what so many threads have found to the call's.
SLC_FN void give_back(const Counting &c, const CountShared *s, int thread, int threads) {
	Found *found = c.found;
	if (thread < kBrackets && s->below[thread]) atomic_add(&found->below[thread], s->below[thread]);
	if (thread < 3) {
		atomic_add(&found->sum[thread], s->sum[thread]);
		atomic_add(&found->sum2[thread], s->sum2[thread]);
	}
	if (thread == 0) {
		atomic_add(&found->counted, s->counted);
		if (s->overflow) atomic_or(&found->overflow, 1);
	}
	if (c.n_bins > 0 && c.n_bins <= kSharedBins)
		for (int at = thread; at < c.n_bins; at += threads)
			if (s->bins[at]) atomic_add(&c.bins[at], s->bins[at]);
}

// count goes over a block's tile.
template <class M> SLC_FN void count(int64_t format, const Side &rows, const Side &columns, const Counting &c) {
	const int64_t row = rows.from + (int64_t)blockIdx.y * kTilePanels,
		column = columns.from + (int64_t)blockIdx.x * kTilePanels;
	float v[kLaneValues];
	values_of<M>(format, v, rows, row, columns, column, slc_dynamic);

	CountShared *s = (CountShared *)slc_dynamic;
	for (int at = (int)threadIdx.x; at < (int)(sizeof *s / 4); at += kTileThreads) ((uint32_t *)s)[at] = 0;
	sync_block();

	const int warp = (int)threadIdx.x / 32;
	const int row_base = (int)(rows.from * kPanel), row0 = (int)((row + warp / 2) * kPanel) - row_base;
	const int row_end = (int)min(rows.n, rows.to * kPanel) - row_base;
	const int column0 = (int)(column - columns.from) * kPanel;
	const int column_end = (int)(min(columns.n, columns.to * kPanel) - columns.from * kPanel);
	Classes k[2];
	SLC_UNROLL
	for (int p = 0; p < 2; p++)
		k[p] = classify<M>(c, row0, column0 + warp % 2 * 64 + p * kPanel, row_end, column_end, row_base);
	if (c.look->best) {
		// The block's largest values of each column come first, then the largest of all so far, then candidates: fewer
		// pairs come within the margin of a best value that is already high.
		SLC_UNROLL
		for (int p = 0; p < 2; p++) column_maxima<M>(s->best + warp % 2 * 64 + p * kPanel, v + p * 32, k[p].far);
		sync_block();
		for (int at = (int)threadIdx.x; at < kTileSide; at += kTileThreads)
			if (column0 + at < column_end) {
				const uint32_t mine = s->best[at];
				s->best[at] = max(mine, atomic_max(&c.best_other[column0 + at], mine));
			}
		sync_block();
	}
	// One panel after the other, by the same code: the first 32 values are the panel's.
	const int panels = has_pairs(rows, row, columns, column) ? two_panels(columns) : 0;
	for (int p = 0; p < panels; p++) {
		const int block_column = warp % 2 * 64 + p * kPanel, first = column0 + block_column;
		const uint32_t place = (uint32_t)(row0 << 16) + (uint32_t)first;
		negatives<M>(c, s, v, k[0].counted, place);
		if (c.look->best) candidates<M>(c, s->best + block_column, v, k[0], first, place);
		k[0] = k[1];
		SLC_UNROLL
		for (int i = 0; i < 32; i++) v[i] = v[32 + i];
	}
	sync_block();
	give_back(c, s, (int)threadIdx.x, kTileThreads);
}

} // namespace slc
#endif
