// Steps on the way to slc_tiles_f32_avx512 and slc_scan_i8_avx512vnni. AVX-512 and VNNI are for the caller to know.
#ifndef LADDER_H
#define LADDER_H

#include <stdint.h>

enum { LADDER_TILE = 32, LADDER_LIMITS = 5 };

// What a step counts: for each limit, the pairs of a row and a column whose product is below it.
// Rows are dim floats each; panels are [dim][32], 32 vectors each.
typedef struct {
	const float *rows, *columns;
	int64_t n, m, dim; // n and m are multiples of 32
	const float *limits;
	int64_t *below;
} ladder_pairs;

void ladder_dot(const ladder_pairs *p);    // a sum of one product after the other
void ladder_lanes(const ladder_pairs *p);  // 16 sums side by side, added up for each pair
void ladder_panels(const ladder_pairs *p); // of panels: 16 registers of sums, nothing to add up; counted by masks
void ladder_signs(const ladder_pairs *p);  // the same, counted by the signs of differences

// Peaks from registers: the number of operations done.
double ladder_peak_f32(int64_t n);
double ladder_peak_i8(int64_t n);

#endif
