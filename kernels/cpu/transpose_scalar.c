//go:build amd64 || arm64

// Moves matrices; the compiler's baseline is enough, because memory is what it waits for.
#include "transpose.h"

typedef float vec __attribute__((vector_size(16)));
typedef float unaligned __attribute__((vector_size(16), aligned(4)));

// four turns a square of 4 x 4 around.
static inline void four(float *to, int64_t to_stride, const float *from, int64_t stride) {
	vec a = *(const unaligned *)from, b = *(const unaligned *)(from + stride);
	vec c = *(const unaligned *)(from + 2 * stride), d = *(const unaligned *)(from + 3 * stride);
	vec ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
	*(unaligned *)to = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
	*(unaligned *)(to + to_stride) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
	ab = __builtin_shufflevector(a, b, 2, 6, 3, 7), cd = __builtin_shufflevector(c, d, 2, 6, 3, 7);
	*(unaligned *)(to + 2 * to_stride) = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
	*(unaligned *)(to + 3 * to_stride) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}

// Squares of BLOCK on both sides fit the first-level cache and few pages.
enum { BLOCK = 32 };

static void block(float *to, int64_t to_stride, const float *from, int64_t stride, int64_t rows, int64_t cols) {
	int64_t j = 0;
	for (; j + 4 <= cols; j += 4) {
		int64_t i = 0;
		for (; i + 4 <= rows; i += 4) four(to + j * to_stride + i, to_stride, from + i * stride + j, stride);
		for (; i < rows; i++)
			for (int k = 0; k < 4; k++) to[(j + k) * to_stride + i] = from[i * stride + j + k];
	}
	for (; j < cols; j++)
		for (int64_t i = 0; i < rows; i++) to[j * to_stride + i] = from[i * stride + j];
}

void slc_transpose_f32_scalar(float *to, int64_t to_stride, const float *from, int64_t from_stride, int64_t rows,
		int64_t cols) {
	for (int64_t i = 0; i < rows; i += BLOCK)
		for (int64_t j = 0; j < cols; j += BLOCK)
			block(to + j * to_stride + i, to_stride, from + i * from_stride + j, from_stride,
			      rows - i < BLOCK ? rows - i : BLOCK, cols - j < BLOCK ? cols - j : BLOCK);
}
