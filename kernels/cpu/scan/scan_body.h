// The index scan, written once and included by a thin file per instruction set, which defines
//   NAME                    the function's name
//   section_dot(b, q, out)  the 16 lanes' sums of nibble·q over a block b of 64 dimensions
//   lanes_of(out)           a bit per lane: set where out (int32_t[16]) is −1, clear where it is 0
// Loops over lanes are left to the compiler's vectoriser. The file may also define OWN_FILTER and, after including this
// file, filter.
#include <string.h>

enum { STEP, NORM, ERROR, TAIL, WEIGHTS };            // fields of weights
enum { SCALE, REST_HIGH, REST_BOTH, LENGTH, BEHIND }; // fields of meta

INLINE const uint8_t *block_of(const slc_scan_call *c, int plane, int64_t panel) {
	return c->codes + (plane * c->panels + panel) * SLC_SCAN_BLOCK;
}

INLINE const float *meta_of(const slc_scan_call *c, int64_t section, int kind) {
	return c->meta + (section * SLC_SCAN_META + kind) * c->panels;
}

INLINE const float *spread_of(const slc_scan_call *c) { return meta_of(c, c->sections, 0); }

INLINE const float *shape_of(const slc_scan_call *c) { return spread_of(c) + c->panels; }

INLINE const float *weights_of(const slc_scan_call *c, int64_t section, int kind) {
	return c->weights + (section * WEIGHTS + kind) * c->room;
}

INLINE float *acc_of(const slc_scan_call *c, int64_t query, int64_t panel) {
	return c->acc + (query * c->panels + panel) * SLC_SCAN_LANES;
}

// A plane adds step·scale·(16h − 120) if high, step·scale·(l − 7.5) if low: factor·(2·nibble − 15).
INLINE float factor_of(int plane) { return plane & 1 ? 0.5f : 8.0f; }

INLINE void add_plane(const slc_scan_call *c, int plane, int64_t panel, int64_t query, float *acc) {
	const int64_t section = plane >> 1, at = section * c->room + query;
	const int32_t offset = c->sums[at];
	const float unit = factor_of(plane) * meta_of(c, section, SCALE)[panel] * weights_of(c, section, STEP)[query];
	int32_t sum[SLC_SCAN_LANES] __attribute__((aligned(64)));
	section_dot(block_of(c, plane, panel), c->q8 + at * SLC_SCAN_SECTION, sum);
	for (int lane = 0; lane < SLC_SCAN_LANES; lane++) acc[lane] += (float)(2 * sum[lane] - offset) * unit;
}

// The planes read so far.
typedef struct {
	int64_t high;                    // number of sections whose high plane is read
	uint8_t both[SLC_SCAN_SECTIONS]; // whether the low plane is read as well
} progress;

INLINE void advance(progress *s, int plane) {
	if (plane & 1) s->both[plane >> 1] = 1;
	else s->high++;
}

// slack fills out[from … to) with the maximum difference between true products and the panels' sums.
INLINE void slack(const slc_scan_call *c, const progress *s, int64_t query, int64_t from, int64_t to, float *out) {
	for (int64_t p = from; p < to; p++) out[p] = 0;
	for (int64_t section = 0; section < s->high; section++) {
		const float *rest = meta_of(c, section, s->both[section] ? REST_BOTH : REST_HIGH),
			*length = meta_of(c, section, LENGTH);
		const float norm = weights_of(c, section, NORM)[query], error = weights_of(c, section, ERROR)[query];
		for (int64_t p = from; p < to; p++) out[p] += norm * rest[p] + error * length[p];
	}
	if (s->high < c->sections) {
		const float *behind = meta_of(c, s->high, BEHIND), tail = weights_of(c, s->high, TAIL)[query];
		for (int64_t p = from; p < to; p++) out[p] += tail * behind[p];
	}
}

// left returns a bit per row that is not ruled out; a NaN bound rules nothing out.
INLINE uint32_t left(const float *acc, float slack, float need) {
	int32_t out[SLC_SCAN_LANES] __attribute__((aligned(64)));
	for (int lane = 0; lane < SLC_SCAN_LANES; lane++) out[lane] = -(acc[lane] + slack < need);
	return ~lanes_of(out) & 0xffff;
}

// begin initialises acc of a panel's rows for a query with the chunk's terms and the contributions of the biases.
INLINE void begin(const slc_scan_call *c, int64_t query, int64_t panel, float *acc) {
	if (c->terms) memcpy(acc, c->terms + panel * SLC_SCAN_LANES, SLC_SCAN_LANES * sizeof *acc);
	if (!(c->biased >> query & 1)) return;
	const float *bias = c->bias + query * SLC_SCAN_ROWS + panel * SLC_SCAN_LANES;
	const float linear = c->lift[query * SLC_SCAN_LIFT], square = c->lift[query * SLC_SCAN_LIFT + 1];
	for (int lane = 0; lane < SLC_SCAN_LANES; lane++) {
		float sum = acc[lane] + bias[lane] * (linear + square * bias[lane]);
		acc[lane] = sum + __builtin_fabsf(sum) * 0x1p-22f; // rounded up
	}
}

// first_pass reads the first planes of the panels in list for one query and returns how many panels are left.
INLINE int64_t first_pass(const slc_scan_call *c, const progress *s, int64_t query, uint8_t *list, int64_t count,
		float *lack) {
	int64_t kept = 0;
	slack(c, s, query, 0, c->panels, lack);
	for (int64_t i = 0; i < count; i++) {
		const int64_t panel = list[i];
		float acc[SLC_SCAN_LANES] __attribute__((aligned(64))) = {0};
		begin(c, query, panel, acc);
		for (int64_t k = 0; k < c->first; k++) add_plane(c, c->steps[k], panel, query, acc);
		if (!left(acc, lack[panel], c->need[query])) continue;
		list[kept++] = (uint8_t)panel;
		memcpy(acc_of(c, query, panel), acc, sizeof acc);
	}
	c->alive[c->first - 1] += kept;
	return kept;
}

// refine reads the planes after the first ones for the panels in list, and returns how many panels are left.
INLINE int64_t refine(const slc_scan_call *c, progress *s, int64_t query, uint8_t *list, int64_t count, float *lack) {
	enum { AHEAD = 3 };
	for (int64_t k = c->first; k < c->step_count && count > 0; k++) {
		const int plane = c->steps[k];
		int64_t kept = 0;
		advance(s, plane);
		for (int64_t i = 0; i < count; i++) {
			const int64_t panel = list[i];
			if (i + AHEAD < count)
				for (int at = 0; at < SLC_SCAN_BLOCK; at += 64)
					__builtin_prefetch(block_of(c, plane, list[i + AHEAD]) + at);
			float *acc = acc_of(c, query, panel);
			add_plane(c, plane, panel, query, acc);
			slack(c, s, query, panel, panel + 1, lack);
			if (left(acc, lack[panel], c->need[query])) list[kept++] = (uint8_t)panel;
		}
		count = kept;
		c->alive[k] += count;
	}
	return count;
}

// filter sets a bit in alive[query] for every panel that it does not rule out, for all queries at once, reading no more
// than the first planes; it returns 0 if it has no faster method than first_pass.
static int filter(const slc_scan_call *c, const progress *s, uint64_t *alive);
#ifndef OWN_FILTER
static int filter(const slc_scan_call *c, const progress *s, uint64_t *alive) {
	return (void)c, (void)s, (void)alive, 0;
}
#endif

int64_t NAME(const slc_scan_call *c) {
	int64_t found = 0;
	progress after_first = {0};
	uint64_t alive[SLC_SCAN_QUERIES];
	for (int64_t k = 0; k < c->first; k++) advance(&after_first, c->steps[k]);
	const int filtered = filter(c, &after_first, alive);
	for (int64_t query = 0; query < c->queries; query++) {
		uint8_t list[SLC_SCAN_PANELS];
		float lack[SLC_SCAN_PANELS];
		int64_t count = 0;
		progress s = after_first;
		if (filtered)
			for (uint64_t bits = alive[query]; bits; bits &= bits - 1) list[count++] = (uint8_t)__builtin_ctzll(bits);
		else
			for (; count < c->panels; count++) list[count] = (uint8_t)count;
		if (count > 0) count = first_pass(c, &s, query, list, count, lack);
		if (count > 0) count = refine(c, &s, query, list, count, lack);
		for (int64_t i = 0; i < count; i++) {
			const int64_t panel = list[i];
			const float *acc = acc_of(c, query, panel);
			for (uint32_t rows = left(acc, lack[panel], c->need[query]); rows; rows &= rows - 1) {
				const int64_t lane = __builtin_ctz(rows);
				c->bounds[found] = acc[lane] + lack[panel];
				c->found[found++] = (uint32_t)query << 16 | (uint32_t)(panel * SLC_SCAN_LANES + lane);
			}
		}
	}
	return found;
}
