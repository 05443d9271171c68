// The steps of i16 codes: a vector's codes are round(x / step).
//
// The tile kernels add the products of up to I16_CHAIN codes of a pair in an int32, which holds the sum if every such
// part of a vector has a norm of at most I16_MAX_NORM; and a code has 16 bits. Both limit the step from below, so a
// vector with evenly distributed elements, as in embeddings, gets a finer step.
#ifndef SLC_PACK_CODES_H
#define SLC_PACK_CODES_H

#include "pack.h"

enum { I16_CHAIN = 32 };     // longer chains are faster to multiply, and coarser (docs/adr/0002-tiles.md)
#define I16_MAX_NORM 46300.0 // plus sqrt(I16_CHAIN) / 2 for rounding, its square is below 2^31

// i16_step returns a vector's step from the largest squared norm, summed in float32, of its parts of I16_CHAIN
// elements, and from its largest magnitude, `highest`.
static inline float i16_step(double longest, float highest) {
	const double by_norm = __builtin_sqrt(longest) * (1 + 1e-5) / I16_MAX_NORM, by_code = (double)highest / 32767;
	const double step = by_norm > by_code ? by_norm : by_code;
	return step > 0x1p-100 ? (float)(step * (1 + 0x1p-23)) : 0;
}

#endif
