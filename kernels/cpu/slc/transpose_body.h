// Transposition of a block that fits the first-level cache, with vectors of four floats, which every instruction set
// has.
#include <stdint.h>
#include "inline.h"

typedef float four __attribute__((vector_size(16)));
typedef float unaligned4 __attribute__((vector_size(16), aligned(4)));

// transpose_four transposes a 4 x 4 block.
INLINE void transpose_four(float *to, int64_t to_stride, const float *from, int64_t stride) {
	four a = *(const unaligned4 *)from, b = *(const unaligned4 *)(from + stride);
	four c = *(const unaligned4 *)(from + 2 * stride), d = *(const unaligned4 *)(from + 3 * stride);
	four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
	*(unaligned4 *)to = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
	*(unaligned4 *)(to + to_stride) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
	ab = __builtin_shufflevector(a, b, 2, 6, 3, 7), cd = __builtin_shufflevector(c, d, 2, 6, 3, 7);
	*(unaligned4 *)(to + 2 * to_stride) = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
	*(unaligned4 *)(to + 3 * to_stride) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}

// transpose_block writes the columns of a block as rows.
INLINE void transpose_block(float *to, int64_t to_stride, const float *from, int64_t stride, int64_t rows,
		int64_t cols) {
	int64_t j = 0;
	for (; j + 4 <= cols; j += 4) {
		int64_t i = 0;
		for (; i + 4 <= rows; i += 4) transpose_four(to + j * to_stride + i, to_stride, from + i * stride + j, stride);
		for (; i < rows; i++)
			for (int k = 0; k < 4; k++) to[(j + k) * to_stride + i] = from[i * stride + j + k];
	}
	for (; j < cols; j++)
		for (int64_t i = 0; i < rows; i++) to[j * to_stride + i] = from[i * stride + j];
}
