// The index scan, written once and included by a thin file per instruction set, which defines
//   NAME                    the function's name
//   section_dot(b, q, out)  the 16 lanes' sums of nibble·q over a block b of 64 dimensions
//   lanes_of(out)           a bit per lane whose element of *out (ints) is −1, not 0
// and may define accumulate(call), which else is the one below.
#include <string.h>

typedef float floats __attribute__((vector_size(64)));

enum { STEP, NORM, ERROR, TAIL, WEIGHTS };                 // of weights
enum { SCALE, REST_HIGH, REST_BOTH, LENGTH, BEHIND };      // of meta

INLINE floats load(const float *p) {
	floats v;
	memcpy(&v, p, sizeof v);
	return v;
}

INLINE void store(float *p, const floats *v) { memcpy(p, v, sizeof *v); }

INLINE const uint8_t *block_of(const slc_scan_call *c, int plane, int64_t panel) {
	return c->codes + (plane * c->panels + panel) * SLC_SCAN_BLOCK;
}

INLINE const float *meta_of(const slc_scan_call *c, int64_t section, int kind) {
	return c->meta + (section * SLC_SCAN_META + kind) * c->panels;
}

INLINE float weight_of(const slc_scan_call *c, int64_t section, int kind, int64_t query) {
	return c->weights[(section * WEIGHTS + kind) * c->queries + query];
}

// A plane adds step·scale·(16h − 120) if high, step·scale·(l − 7.5) if low: factor·(2·nibble − 15).
INLINE float factor_of(int plane) { return plane & 1 ? 0.5f : 8.0f; }

INLINE void add_plane(const slc_scan_call *c, int plane, int64_t panel, int64_t query) {
	const int64_t section = plane >> 1;
	ints sum;
	section_dot(block_of(c, plane, panel), c->q8 + (section * c->queries + query) * SLC_SCAN_SECTION, &sum);
	sum = sum + sum - c->sums[section * c->queries + query];
	const float unit = factor_of(plane) * meta_of(c, section, SCALE)[panel] * weight_of(c, section, STEP, query);
	float *acc = c->acc + (query * c->panels + panel) * SLC_SCAN_LANES;
	floats more = load(acc) + __builtin_convertvector(sum, floats) * unit;
	store(acc, &more);
}

#ifndef OWN_ACCUMULATE
// accumulate reads the first planes of all panels. Plane by plane, so that memory is read in one stream.
static void accumulate(const slc_scan_call *c) {
	for (int64_t k = 0; k < c->first; k++)
		for (int64_t panel = 0; panel < c->panels; panel++)
			for (int64_t query = 0; query < c->queries; query++) add_plane(c, c->steps[k], panel, query);
}
#endif

// How much of each section has been read.
typedef struct {
	int64_t high;                      // sections with a high plane
	uint8_t both[SLC_SCAN_SECTIONS];   // and a low one
} progress;

INLINE void advance(progress *s, int plane) {
	if (plane & 1) s->both[plane >> 1] = 1;
	else s->high++;
}

// slack fills out[from … to) with what the panels' sums may lack.
INLINE void slack(const slc_scan_call *c, const progress *s, int64_t query, int64_t from, int64_t to, float *out) {
	for (int64_t p = from; p < to; p++) out[p] = 0;
	for (int64_t section = 0; section < s->high; section++) {
		const float *rest = meta_of(c, section, s->both[section] ? REST_BOTH : REST_HIGH), *length = meta_of(c, section, LENGTH);
		const float norm = weight_of(c, section, NORM, query), error = weight_of(c, section, ERROR, query);
		for (int64_t p = from; p < to; p++) out[p] += norm * rest[p] + error * length[p];
	}
	if (s->high < c->sections) {
		const float *behind = meta_of(c, s->high, BEHIND), tail = weight_of(c, s->high, TAIL, query);
		for (int64_t p = from; p < to; p++) out[p] += tail * behind[p];
	}
}

// left is a bit per row of the panel that is not ruled out; a bound that is no number rules nothing out.
INLINE uint32_t left(const slc_scan_call *c, int64_t query, int64_t panel, float slack) {
	floats bound = load(c->acc + (query * c->panels + panel) * SLC_SCAN_LANES) + slack;
	ints out = bound < c->need[query];
	return ~lanes_of(&out) & 0xffff;
}

// refine reads the planes behind the first ones for the panels in list and returns how many are left.
INLINE int64_t refine(const slc_scan_call *c, progress s, int64_t query, uint8_t *list, int64_t count, float *lack) {
	enum { AHEAD = 3 };
	for (int64_t k = c->first; k < c->step_count && count > 0; k++) {
		const int plane = c->steps[k];
		int64_t kept = 0;
		advance(&s, plane);
		for (int64_t i = 0; i < count; i++) {
			const int64_t panel = list[i];
			if (i + AHEAD < count)
				for (int at = 0; at < SLC_SCAN_BLOCK; at += 64)
					__builtin_prefetch(block_of(c, plane, list[i + AHEAD]) + at);
			add_plane(c, plane, panel, query);
			slack(c, &s, query, panel, panel + 1, lack);
			if (left(c, query, panel, lack[panel])) list[kept++] = (uint8_t)panel;
		}
		count = kept;
		c->alive[k] += count;
	}
	return count;
}

int64_t NAME(const slc_scan_call *c) {
	int64_t found = 0;
	progress s = {0};
	for (int64_t i = 0; i < c->queries * c->panels; i++) {
		floats begin = {0};
		if (c->terms) begin = load(c->terms + i % c->panels * SLC_SCAN_LANES);
		store(c->acc + i * SLC_SCAN_LANES, &begin);
	}
	accumulate(c);
	for (int64_t k = 0; k < c->first; k++) advance(&s, c->steps[k]);
	for (int64_t query = 0; query < c->queries; query++) {
		uint8_t list[SLC_SCAN_PANELS];
		float lack[SLC_SCAN_PANELS];
		int64_t count = 0;
		slack(c, &s, query, 0, c->panels, lack);
		for (int64_t panel = 0; panel < c->panels; panel++)
			if (left(c, query, panel, lack[panel])) list[count++] = (uint8_t)panel;
		c->alive[c->first - 1] += count;
		count = refine(c, s, query, list, count, lack);
		for (int64_t i = 0; i < count; i++)
			for (uint32_t rows = left(c, query, list[i], lack[list[i]]); rows; rows &= rows - 1)
				c->found[found++] = (uint32_t)query << 16 | (uint32_t)(list[i] * SLC_SCAN_LANES + __builtin_ctz(rows));
	}
	return found;
}
