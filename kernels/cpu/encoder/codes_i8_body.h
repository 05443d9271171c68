// The body of slc_codes_i8, compiled once per instruction set. A file that includes it includes lanes_body.h and
// defines ISA and
//   CODE_BYTES     the size of a code
//   CODES(p, v)    stores the lowest CODE_BYTES bytes of each lane, plus the instruction set's offset in linear.c
#include <string.h>

#include "linear.h"

INLINE ivec larger(ivec a, ivec b) {
	const ivec more = a > b;
	return (a & more) | (b & ~more);
}

// largest_bits returns the largest lane compared as integers: for magnitudes of floats that is the largest magnitude,
// and NaN is larger than all numbers.
INLINE int32_t largest_bits(ivec v) {
	if (W > 8) v = larger(v, BEHIND(v, 8));
	if (W > 4) v = larger(v, BEHIND(v, 4));
	v = larger(v, BEHIND(v, 2));
	return v[0] > v[1] ? v[0] : v[1];
}

// encode writes the codes of a group of n inputs, and returns their step: an input is its code times the step, with an
// error of up to half a step. If a value is not finite, the step is not finite.
INLINE float encode(uint8_t *codes, const float *x, int64_t n) {
	float group[SLC_I8_GROUP] = {0};
	if (n < SLC_I8_GROUP) memcpy(group, x, n * sizeof *x), x = group;
	ivec highest = {0};
#pragma GCC unroll 8
	for (int j = 0; j < SLC_I8_GROUP; j += W) highest = larger((ivec)LOAD(x + j) & 0x7fffffff, highest);
	const int32_t bits = largest_bits(highest);
	float top;
	memcpy(&top, &bits, sizeof top);
	const float scale = top > 1e-30f ? 127 / top : 0;
#pragma GCC unroll 8
	for (int j = 0; j < SLC_I8_GROUP; j += W)
		CODES(codes + j * CODE_BYTES, // the nearest integer is in the low bits
		      (ivec)MADD(SET1(0x1.8p23f), LOAD(x + j), SET1(scale)));
	return top > 1e-30f || top != top ? top / 127 : 0;
}

void PASTE(slc_codes_i8_, ISA)(const float *x, int64_t rows, int64_t stride, int64_t in, uint8_t *codes,
                               int64_t code_stride, float *steps, int64_t step_stride) {
	for (int64_t i = 0; i < rows; i++)
		for (int64_t k = 0; k < in; k += SLC_I8_GROUP)
			steps[i * step_stride + k / SLC_I8_GROUP] =
				encode(codes + i * code_stride + k * CODE_BYTES, x + i * stride + k,
				       in - k < SLC_I8_GROUP ? in - k : SLC_I8_GROUP);
}
