//go:build amd64 || arm64

// Transposes matrices; the compiler's baseline suffices, because the operation is bound by memory.
#include "transpose.h"
#include "transpose_body.h"

// Squares of BLOCK x BLOCK on both sides fit the first-level cache and touch few pages.
enum { BLOCK = 32 };

void slc_transpose_f32_scalar(float *to, int64_t to_stride, const float *from, int64_t from_stride, int64_t rows,
		int64_t cols) {
	for (int64_t i = 0; i < rows; i += BLOCK)
		for (int64_t j = 0; j < cols; j += BLOCK)
			transpose_block(to + j * to_stride + i, to_stride, from + i * from_stride + j, from_stride,
			                rows - i < BLOCK ? rows - i : BLOCK, cols - j < BLOCK ? cols - j : BLOCK);
}
