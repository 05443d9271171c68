// The C contract of the index scan: upper bounds of q·c from 4-bit planes, refined plane by plane.
// Conventions as in slc.h: pure, single-threaded, no allocation, no state.
//
// A chunk holds rows in panels of 16, each row as an approximation y^ of a rotated residual y. Its
// dimensions come in sections of 64; in each, a row's element is scale·(code − 127.5), code being
// 0…255, scale belonging to (panel, section). A section has two planes of 4 bits: plane 2·section has
// the codes' high nibbles h, which alone stand for scale·(16h + 7.5 − 127.5), plane 2·section + 1 the
// low ones. Plane p of panel j is the block of 512 bytes at codes + (p·panels + j)·512: eight lines
// of 64 bytes, byte 4·lane + i of line g having dimension 4g + i of row `lane` in its low half
// and dimension 32 + 4g + i in its high half. That is the operand order of VNNI and AMX.
//
// meta is float[sections][5][panels]; each value holds for all rows of the panel and is rounded up:
//   0 scale   1 |y − y^| with the high plane only   2 the same with both   3 |y^| (larger of both)
//   all of this section; 4 |y| of this section and all behind it.
// Behind that are float[panels], the panels' spread, and float[sections], the chunk's shape: scale is
// spread·shape rounded to float32; where that is not so, the spread is no number.
#ifndef SLC_SCAN_H
#define SLC_SCAN_H

#include "slc.h"

enum {
	SLC_SCAN_LANES = 16,    // rows of a panel
	SLC_SCAN_PANELS = 64,   // panels of a chunk at most
	SLC_SCAN_SECTION = 64,  // dimensions of a section
	SLC_SCAN_SECTIONS = 64, // sections at most
	SLC_SCAN_BLOCK = 512,   // bytes of a plane's block
	SLC_SCAN_QUERIES = 64,  // queries of a call at most
	SLC_SCAN_META = 5,
	SLC_SCAN_ROWS = 1024, // rows of a chunk at most, and floats from one query's biases to the next one's
	SLC_SCAN_LIFT = 2
};

// A query z is given by z^ = step·q8 per section:
//   q8       int8[sections][room][64], room ≥ queries; what lies behind the queries does not matter
//   sums     int32[sections][room]: 15 · the sum of q8
//   weights  float[sections][4][room]: step, |z| and |z − z^| of the section, |z| from the section
//            on; all but the step rounded up and with room for this scan's own float32 roundings
// A query whose bit is set in biased has a bias per row, not negative:
//   bias     float[queries][SLC_SCAN_ROWS]; rows of queries without the bit are not read
//   lift     float[queries][2]: a row's bias b adds b·(lift[0] + lift[1]·b) to its term. Both are rounded up
//            by more than a 2⁻²⁰th part for these operations' roundings, and with room for the scan's own.
// For each query and row the scan begins with terms[row] (terms may be NULL: 0) and what its bias adds, and reads
// the planes in steps[0 … step_count): a section's high plane before its low one, the high planes in order. What it
// has, plus
//   sum over sections read (|z|·|y − y^| + |z − z^|·|y^|) + |z|·|y| of the sections not read,
// is at least z·y + terms[row] + what the bias adds. The first `first` planes are read of all panels, the others only
// of panels in which a row of the query may still reach need[query]: a row is ruled out where its bound is below.
//
// The rows left after the last step are written to found as query << 16 | row, in ascending order, and
// their bounds to bounds (room for queries·panels·16 each), found_count of them. alive[k] is increased by the number of
// (query, panel) left after step k, k ≥ first − 1. acc is memory to work in, queries·panels·16 floats.
typedef struct {
	const uint8_t *codes;
	const float *meta, *terms;
	int64_t panels, sections;
	const int8_t *q8;
	const int32_t *sums;
	const float *weights;
	int64_t queries, room;
	const uint8_t *steps;
	int64_t step_count, first;
	const float *need;
	const float *bias;
	uint64_t biased;
	const float *lift;
	float *acc;
	uint32_t *found;
	float *bounds;
	int64_t *alive;
} slc_scan_call;

int32_t slc_scan(int32_t isa, slc_scan_call c, int64_t *found_count, slc_error *error);

// The per-ISA functions behind the dispatch; they trust their arguments and return found_count.
typedef int64_t slc_scan_fn(const slc_scan_call *);
slc_scan_fn slc_scan_i8_scalar;
#if defined(__x86_64__)
slc_scan_fn slc_scan_i8_avx2, slc_scan_i8_avx512vnni, slc_scan_i8_amx;
#endif

#endif
