// The C contract of the index scan: upper bounds of q·c from 4-bit planes, refined plane by plane.
// Conventions as in slc.h: pure, single-threaded, no allocation, no state.
//
// A chunk holds rows in panels of 16, each row as an approximation y^ of a rotated residual y. Its dimensions are
// divided into sections of 64; in each, a row's element is scale·(code − 127.5), where code is 0…255 and scale belongs
// to (panel, section). A section has two planes of 4 bits: plane 2·section has the codes' high nibbles h, which alone
// stand for scale·(16h + 7.5 − 127.5), plane 2·section + 1 the low nibbles. Plane p of panel j is the block of 512
// bytes at codes + (p·panels + j)·512: eight lines of 64 bytes; byte 4·lane + i of line g has dimension 4g + i of row
// `lane` in its low half and dimension 32 + 4g + i in its high half. That is the operand order of VNNI and AMX.
//
// meta is float[sections][5][panels]; each value bounds all rows of the panel and is rounded up:
//   0 scale   1 |y − y^| with the high plane only   2 the same with both planes   3 |y^| (larger of both)
//   all of this section; 4 |y| of this section and all later ones.
// It is followed by float[panels], the panels' spread, and float[sections], the chunk's shape: scale is spread·shape
// rounded to float32; for panels where that does not hold, the spread is NaN.
#ifndef SLC_SCAN_H
#define SLC_SCAN_H

#include "slc.h"

enum {
	SLC_SCAN_LANES = 16,    // rows of a panel
	SLC_SCAN_PANELS = 64,   // maximum panels per chunk
	SLC_SCAN_SECTION = 64,  // dimensions per section
	SLC_SCAN_SECTIONS = 64, // maximum sections
	SLC_SCAN_BLOCK = 512,   // bytes of a plane's block
	SLC_SCAN_QUERIES = 64,  // maximum queries per call
	SLC_SCAN_META = 5,
	SLC_SCAN_ROWS = 1024, // maximum rows per chunk, and floats between the biases of consecutive queries
	SLC_SCAN_LIFT = 2
};

// A query z is approximated by z^ = step·q8 per section:
//   q8       int8[sections][room][64], room ≥ queries; contents beyond the queries are ignored
//   sums     int32[sections][room]: 15 · the sum of q8
//   weights  float[sections][4][room]: step, |z| and |z − z^| of the section, |z| from the section on; all but the step
//            are rounded up with a margin for this scan's float32 roundings
// A query whose bit is set in biased has a bias ≥ 0 per row:
//   bias     float[queries][SLC_SCAN_ROWS]; rows of queries without the bit are not read
//   lift     float[queries][2]: a row's bias b adds b·(lift[0] + lift[1]·b) to its term. Both are rounded up by more
//            than a 2⁻²⁰th part for these operations' roundings, and with a margin for the scan's own.
// For each query and row the scan starts with terms[row] (0 if terms is NULL) plus the bias's contribution, and reads
// the planes in steps[0 … step_count): a section's high plane before its low one, the high planes in order. Its sum,
// plus
//   sum over sections read (|z|·|y − y^| + |z − z^|·|y^|) + |z|·|y| of the sections not read,
// is at least z·y + terms[row] + the bias's contribution. The first `first` planes are read for all panels, the others
// only for panels in which a row of the query may still reach need[query]: a row is ruled out if its bound is below.
//
// The rows left after the last step are written to found as query << 16 | row, in ascending order, and their bounds to
// bounds (room for queries·panels·16 each), found_count in all. alive[k] is increased by the number of (query, panel)
// pairs left after step k, k ≥ first − 1. acc is working memory of queries·panels·16 floats.
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

// The functions per instruction set; they do not check their arguments and return found_count.
typedef int64_t slc_scan_fn(const slc_scan_call *);
slc_scan_fn slc_scan_i8_scalar;
#if defined(__x86_64__)
slc_scan_fn slc_scan_i8_avx2, slc_scan_i8_avxvnni, slc_scan_i8_avx512vnni, slc_scan_i8_amx;
#elif defined(__aarch64__)
slc_scan_fn slc_scan_i8_neon, slc_scan_i8_dotprod;
#endif

#endif
