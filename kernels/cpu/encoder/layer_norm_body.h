// The body of slc_layer_norm_f32, compiled once per instruction set by layer_norm_<isa>.c, which defines ISA and
// includes lanes_<isa>.h.
#include <string.h>

#include "layer_norm.h"
#include "lanes_body.h"

// sum adds up (x − from), or its squares, over a row.
INLINE float sum(const float *x, int64_t dim, float from, const int squares) {
	vec s = SET1(0.f);
	int64_t j = 0;
	for (; j + W <= dim; j += W) {
		vec d = LOAD(x + j) - SET1(from);
		s = squares ? MADD(s, d, d) : s + d;
	}
	if (j < dim) {
		float d[W] = {0};
		for (int64_t i = j; i < dim; i++) d[i - j] = x[i] - from;
		s = squares ? MADD(s, LOAD(d), LOAD(d)) : s + LOAD(d);
	}
	return total(s);
}

void PASTE(slc_layer_norm_f32_, ISA)(float *rows, int64_t n, int64_t dim, int64_t stride, const float *scale,
                                     const float *shift, float epsilon) {
	for (int64_t i = 0; i < n; i++, rows += stride) {
		const float mean = sum(rows, dim, 0, 0) / (float)dim;
		const float norm = 1 / __builtin_sqrtf(sum(rows, dim, mean, 1) / (float)dim + epsilon);
		int64_t j = 0;
		for (; j + W <= dim; j += W) {
			vec x = (LOAD(rows + j) - SET1(mean)) * SET1(norm);
			STORE(rows + j, MADD(LOAD(shift + j), x, LOAD(scale + j)));
		}
		if (j < dim) {
			const int64_t m = dim - j;
			vec x = (LOADN(rows + j, m) - SET1(mean)) * SET1(norm);
			STOREN(rows + j, MADD(LOADN(shift + j, m), x, LOADN(scale + j, m)), m);
		}
	}
}
