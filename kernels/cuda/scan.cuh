// Scans: a resident set of rows is read once for a few queries. Rows lie there as codes of eight bits in the
// coordinates of a rotation whose first ones have most of the variance; a scan reads the first of them, the head, and
// rules out by a bound what the tail cannot lift to the limit. What is left is looked at with all coordinates (sift),
// and then gets its canonical score (rescore), all in lists on the device.
//
// With y the coordinates of a row, y' those of its codes, z those of a query, z' its codes (16 bits), and h and t for
// head and tail:
//
//	z.y <= z'h.y'h + |zh| |yh - y'h| + |zt| |yt|            head
//	z.y <= z'.y' + |zh| |yh - y'h| + |zt| |yt - y't|        all coordinates
//
// but for what is the same for all rows: |z - z'| |y'|, that the rotation is not quite orthogonal, and roundings. The
// caller takes these from the limit.
//
// Codes lie in panels of 32 rows, [panel][unit][row of 32][16 coordinates], so that the lanes of a warp, a row each,
// read 512 bytes at once.
#ifndef SLC_SCAN_CUH
#define SLC_SCAN_CUH

#include "pack.cuh"
#include "scores.cuh"

namespace slc {

enum { kUnit = 16, kScanThreads = 256, kScanQueries = 8, kScanWarps = kScanThreads / 32 };

// What is known of a row besides its codes: what they are multiplied with, and norms, rounded up to bfloat16: of what
// the codes are off, and of the head also that of the row's tail.
struct RowCode {
	float step;
	uint16_t error, rest;
};

// Coded rows: head and tail, of so many units; terms are -1/2 |y|^2 (l2), or NULL.
struct Coded {
	const unsigned char *head, *tail;
	const RowCode *head_rows, *tail_rows;
	const float *terms;
	int64_t n, head_units, tail_units;
};

// A query: rows matter from limit on. step is what its codes are multiplied with, head and tail are the norms of both
// parts. Its codes lie apart: for each unit 16 high and then 16 low bytes, of 256 high + low.
struct ScanQuery {
	float limit, step, head, tail;
	double bar; // canonical: rows that are worse are not returned
	double unused;
};

// A row that was found, with its canonical score.
struct Scored {
	double score;
	uint32_t row, at; // at: its place in the list that was asked for
};

// What coding finds, over all rows: the squares of the largest norm of codes and of a row, as the bits of doubles.
struct CodeFound {
	uint64_t codes, length;
};

// up_bf16 rounds a number that is not negative up.
SLC_FN uint16_t up_bf16(double x) {
	float f = (float)x;
	if ((double)f < x) f = bits_to_float(float_to_bits(f) + 1);
	return (uint16_t)((float_to_bits(f) + 0xffffu) >> 16);
}

// code_part writes the codes of the coordinates [from, from + 16 units) of a row, whose largest is given, and returns
// the squares of the norms of what they are off and of the codes.
SLC_FN void code_part(const float *y, const double *turned, int64_t dim, int64_t from, int64_t units, int64_t row,
		double largest, unsigned char *out, float *step, double *error, double *norm) {
	const int lane = (int)(threadIdx.x % 32);
	*step = step_of<kI8>(largest);
	const double inverse = inverse_of(*step);
	double off = 0, size = 0;
	for (int64_t g = lane; g < units * (kUnit / 4); g += 32) {
		uint32_t word = 0;
		for (int i = 0; i < 4; i++) {
			const int64_t k = from + 4 * g + i;
			const double x = k < dim ? (double)y[k] - turned[k] : 0;
			const double c = nearest_i8(x * inverse);
			word |= (uint32_t)((int)c & 255) << (8 * i);
			const double coded = c * (double)*step;
			off += (x - coded) * (x - coded), size += coded * coded;
		}
		const int64_t unit = g / (kUnit / 4);
		*(uint32_t *)(out + ((row / kPanel * units + unit) * kPanel + row % kPanel) * kUnit + g % (kUnit / 4) * 4) = word;
	}
	*error = warp_sum(off), *norm = warp_sum(size);
}

// code makes the codes of the rows [first, first + n) by a warp each, from their rotated coordinates y, one row behind
// the other: coordinate k is y[k] - turned[k], off by as much as slop in the norm of a row. Rows from n on to the end of
// the last panel are coded as zeros.
SLC_FN void code(const float *y, int64_t dim, const double *turned, int64_t first, int64_t n, int64_t head_units,
		int64_t tail_units, double slop, unsigned char *head, unsigned char *tail, RowCode *head_rows,
		RowCode *tail_rows, float *terms, CodeFound *found) {
	const int lane = (int)(threadIdx.x % 32);
	const int64_t i = (int64_t)blockIdx.x * kScanWarps + (int64_t)(threadIdx.x / 32);
	if (i >= (n + kPanel - 1) / kPanel * kPanel) return;
	const int64_t row = first + i, split = head_units * kUnit;
	if (i >= n) dim = 0;
	y += i < n ? i * dim : 0;
	double large_head = 0, large_tail = 0, rest = 0, all = 0;
	for (int64_t k = lane; k < dim; k += 32) {
		const double x = (double)y[k] - turned[k], size = fabs(x);
		if (k < split) {
			if (size > large_head) large_head = size;
		} else {
			if (size > large_tail) large_tail = size;
			rest += x * x;
		}
		all += x * x;
	}
	large_head = warp_largest(large_head), large_tail = warp_largest(large_tail);
	rest = warp_sum(rest), all = warp_sum(all);
	float step_head, step_tail;
	double off_head, off_tail, norm_head, norm_tail;
	code_part(y, turned, dim, 0, head_units, row, large_head, head, &step_head, &off_head, &norm_head);
	code_part(y, turned, dim, split, tail_units, row, large_tail, tail, &step_tail, &off_tail, &norm_tail);
	if (lane != 0) return;
	const double more = 1 + 1e-9;
	head_rows[row].step = step_head;
	head_rows[row].error = up_bf16(sqrt(off_head) * more + slop);
	head_rows[row].rest = tail_units > 0 ? up_bf16(sqrt(rest) * more + slop) : 0;
	if (tail_units > 0) {
		tail_rows[row].step = step_tail;
		tail_rows[row].error = up_bf16(sqrt(off_tail) * more + slop);
		tail_rows[row].rest = 0;
	}
	if (terms) terms[row] = (float)(-0.5 * all);
	atomic_max(&found->codes, double_to_bits(norm_head + norm_tail));
	atomic_max(&found->length, double_to_bits(all));
}

// add_units_of adds the products of a unit: word of the row's codes with the high and the low bytes of a query's.
SLC_FN void add_unit(const Word4 &w, const Word4 *query, int *high, int *low) {
	const Word4 a = query[0], b = query[1];
	*high = dot4(w.x, a.x, *high), *low = dot4(w.x, b.x, *low);
	*high = dot4(w.y, a.y, *high), *low = dot4(w.y, b.y, *low);
	*high = dot4(w.z, a.z, *high), *low = dot4(w.z, b.z, *low);
	*high = dot4(w.w, a.w, *high), *low = dot4(w.w, b.w, *low);
}

// joined is the sum that high and low stand for.
SLC_FN float joined(int high, int low) { return 256 * (float)high + (float)low; }

// keep_row appends the rows of the lanes that keep theirs to a list, while there is room.
SLC_FN void keep_row(bool keeps, uint32_t row, uint32_t *list, uint64_t room, uint64_t *count) {
	const uint32_t votes = ballot(keeps);
	if (votes == 0) return;
	const int lane = (int)(threadIdx.x % 32);
	uint64_t base = 0;
	if (lane == 0) base = atomic_add(count, (uint64_t)count_bits(votes));
	base = shuffle(base, 0) + (uint64_t)count_bits(votes & ((1u << lane) - 1));
	if (keeps && base < room) list[base] = row;
}

// fetch_queries copies the codes of n queries into the block's shared memory: n times that many units.
SLC_FN Word4 *fetch_queries(const Word4 *codes, int64_t n, int64_t units) {
	Word4 *shared = (Word4 *)slc_dynamic;
	for (int64_t i = threadIdx.x; i < n * units * 2; i += kScanThreads) shared[i] = codes[i];
	sync_block();
	return shared;
}

// scan reads the heads of the rows [from, to) and lists, for each of n <= max_queries queries, those that may reach its
// limit: lists[q * room], how many in counts[q], which may be more than there is room for. Blocks go over the panels in
// turns.
template <int max_queries> SLC_FN void scan(const Coded &c, const ScanQuery *queries, const Word4 *codes, int64_t n,
		int64_t from, int64_t to, uint32_t *lists, int64_t room, uint64_t *counts) {
	const int64_t units = c.head_units;
	// A query's codes have all units; the head's come first.
	Word4 *shared = fetch_queries(codes, n, units + c.tail_units);
	const int lane = (int)(threadIdx.x % 32);
	const int64_t step = (int64_t)gridDim.x * kScanWarps;
	for (int64_t panel = from / kPanel + (int64_t)blockIdx.x * kScanWarps + threadIdx.x / 32; panel * kPanel < to;
			panel += step) {
		const int64_t row = panel * kPanel + lane;
		const Word4 *words = (const Word4 *)c.head + panel * units * kPanel + lane;
		int high[max_queries], low[max_queries];
		SLC_UNROLL
		for (int q = 0; q < max_queries; q++) high[q] = low[q] = 0;
		SLC_UNROLL_BY(4)
		for (int64_t u = 0; u < units; u++) {
			const Word4 w = load_once(words + u * kPanel);
			SLC_UNROLL
			for (int q = 0; q < max_queries; q++)
				if (q < n) add_unit(w, shared + (q * (units + c.tail_units) + u) * 2, &high[q], &low[q]);
		}
		const bool in = row >= from && row < to;
		const RowCode r = c.head_rows[row];
		const float term = c.terms ? c.terms[row] : 0;
		SLC_UNROLL
		for (int q = 0; q < max_queries; q++) {
			if (q >= n) continue;
			const ScanQuery &z = queries[q];
			const float x = joined(high[q], low[q]) * (z.step * r.step) + term + z.head * from_bf16(r.error) +
				z.tail * from_bf16(r.rest);
			keep_row(in && x >= z.limit, (uint32_t)row, lists + q * room, (uint64_t)room, &counts[q]);
		}
	}
}

// sift looks at listed rows with all coordinates: query q, of the grid's y, at counts[q] rows from lists[q * room] on.
// What may reach the limit less the row's lift goes to found_lists, as the place in the list where places is set, else
// as the row. found_counts are of these.
SLC_FN void sift(const Coded &c, const ScanQuery *queries, const Word4 *codes, const uint32_t *lists,
		const float *lifts, int64_t room, const uint64_t *counts, uint32_t *found_lists, uint64_t *found_counts,
		int64_t places) {
	const int64_t q = blockIdx.y, units = c.head_units + c.tail_units;
	const int64_t n = (int64_t)(counts[q] < (uint64_t)room ? counts[q] : (uint64_t)room);
	Word4 *shared = fetch_queries(codes + q * units * 2, 1, units);
	const ScanQuery &z = queries[q];
	const int lane = (int)(threadIdx.x % 32);
	for (int64_t first = ((int64_t)blockIdx.x * kScanWarps + threadIdx.x / 32) * 32; first < n;
			first += (int64_t)gridDim.x * kScanThreads) {
		const int64_t at = first + lane;
		const bool in = at < n;
		const int64_t row = lists[q * room + (in ? at : first)];
		const Word4 *head = (const Word4 *)c.head + row / kPanel * c.head_units * kPanel + row % kPanel;
		int high = 0, low = 0;
		for (int64_t u = 0; u < c.head_units; u++) add_unit(load_once(head + u * kPanel), shared + u * 2, &high, &low);
		const RowCode r = c.head_rows[row];
		float x = joined(high, low) * (z.step * r.step) + z.head * from_bf16(r.error);
		if (c.terms) x += c.terms[row];
		if (c.tail_units > 0) {
			const Word4 *tail = (const Word4 *)c.tail + row / kPanel * c.tail_units * kPanel + row % kPanel;
			high = low = 0;
			for (int64_t u = 0; u < c.tail_units; u++)
				add_unit(load_once(tail + u * kPanel), shared + (c.head_units + u) * 2, &high, &low);
			const RowCode t = c.tail_rows[row];
			x += joined(high, low) * (z.step * t.step) + z.tail * from_bf16(t.error);
		}
		const float lift = lifts && in ? lifts[at] : 0;
		keep_row(in && x + lift >= z.limit, (uint32_t)(places ? at : row), found_lists + q * room, (uint64_t)room,
			&found_counts[q]);
	}
}

// rescore gives the rows that sift found their canonical scores, eight threads a row, and returns those that are not
// worse than the query's bar: out[q * room], how many in out_counts[q]. With places, found_lists has places in lists.
SLC_FN void rescore(const float *a, int64_t stride_a, const double *norms_a, const float *b, int64_t stride_b,
		const double *norms_b, int64_t dim, int64_t metric, const ScanQuery *queries, const uint32_t *lists,
		int64_t room, const uint32_t *found_lists, const uint64_t *found_counts, int64_t places, Scored *out,
		uint64_t *out_counts) {
	const int64_t q = blockIdx.y;
	const int64_t n = (int64_t)(found_counts[q] < (uint64_t)room ? found_counts[q] : (uint64_t)room);
	const int lane = (int)(threadIdx.x % 32);
	for (int64_t first = ((int64_t)blockIdx.x * kScanWarps + threadIdx.x / 32) * 4; first < n;
			first += (int64_t)gridDim.x * (kScanThreads / 8)) {
		const int64_t i = first + lane / 8;
		const bool in = i < n;
		const uint32_t at = found_lists[q * room + (in ? i : first)];
		const int64_t row = places ? lists[q * room + at] : at;
		const double sum = pair_sum(a + q * stride_a, b + row * stride_b, dim, metric, lane % 8);
		if (lane % 8 != 0 || !in) continue;
		const double score = finish_score(sum, metric, norms_a ? norms_a[q] : 0, norms_b ? norms_b[row] : 0);
		if (metric == kL2 ? score > queries[q].bar : score < queries[q].bar) continue;
		const uint64_t place = atomic_add(&out_counts[q], (uint64_t)1);
		const Scored s = {score, (uint32_t)row, places ? at : 0};
		if (place < (uint64_t)room) out[q * room + (int64_t)place] = s;
	}
}

} // namespace slc
#endif
