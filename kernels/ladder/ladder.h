// Steps on the way to slc_tiles_f32_avx512 and slc_scan_i8_avx512vnni. The caller checks for AVX-512 and VNNI.
#ifndef LADDER_H
#define LADDER_H

#include <stdint.h>

enum { LADDER_TILE = 32, LADDER_LIMITS = 5 };

// For each limit, a step counts the pairs of a row and a column whose product is below it. Rows are dim floats each;
// panels are [dim][32], 32 vectors each.
typedef struct {
	const float *rows, *columns;
	int64_t n, m, dim; // n and m are multiples of 32
	const float *limits;
	int64_t *below;
} ladder_pairs;

void ladder_dot(const ladder_pairs *p);    // one sum, product by product
void ladder_lanes(const ladder_pairs *p);  // 16 parallel sums, added up for each pair
void ladder_panels(const ladder_pairs *p); // panels: 16 registers of sums, no horizontal addition; counts with masks
void ladder_signs(const ladder_pairs *p);  // the same, counting with the signs of differences

// Peak rates with operands in registers; they return the number of operations done.
double ladder_peak_f32(int64_t n);
double ladder_peak_i8(int64_t n);

#endif
