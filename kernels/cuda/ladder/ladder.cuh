// The ladder: what led to tiles.cuh, each step kept so that it can still be run beside the next one (README.md there).
// All of them write out[i * columns + j], the inner products in float32 of rows of a and b, which lie one after the other.
#ifndef SLC_LADDER_CUH
#define SLC_LADDER_CUH

#include "../device.cuh"

namespace slc {

enum { kStepSide = 16 };

// Step 1: correct. A thread a pair, every number from global memory.
SLC_FN void ladder_plain(const float *a, const float *b, int64_t rows, int64_t columns, int64_t dim, float *out) {
	const int64_t i = (int64_t)blockIdx.y * kStepSide + threadIdx.y, j = (int64_t)blockIdx.x * kStepSide + threadIdx.x;
	if (i >= rows || j >= columns) return;
	float sum = 0;
	for (int64_t k = 0; k < dim; k++) sum += a[i * dim + k] * b[j * dim + k];
	out[i * columns + j] = sum;
}

// Step 2: shared memory. A block of 16 x 16 pairs reads each number once; copies and products take turns.
SLC_FN void ladder_shared(const float *a, const float *b, int64_t rows, int64_t columns, int64_t dim, float *out) {
	SLC_SHARED float left[kStepSide][kStepSide + 1], right[kStepSide][kStepSide + 1];
	const int x = (int)threadIdx.x, y = (int)threadIdx.y;
	const int64_t i0 = (int64_t)blockIdx.y * kStepSide, j0 = (int64_t)blockIdx.x * kStepSide;
	float sum = 0;
	for (int64_t k = 0; k < dim; k += kStepSide) {
		left[y][x] = i0 + y < rows && k + x < dim ? a[(i0 + y) * dim + k + x] : 0;
		right[y][x] = j0 + y < columns && k + x < dim ? b[(j0 + y) * dim + k + x] : 0;
		sync_block();
		SLC_UNROLL
		for (int n = 0; n < kStepSide; n++) sum += left[y][n] * right[x][n];
		sync_block();
	}
	if (i0 + y < rows && j0 + x < columns) out[(i0 + y) * columns + j0 + x] = sum;
}

// Step 3 is slc_matrix_f32: 64 pairs a thread in registers, copies in several stages (tiles.cuh). Step 4 are
// slc_matrix_tensor and slc_matrix_bf16x3: the same on the tensor cores.

} // namespace slc
#endif
