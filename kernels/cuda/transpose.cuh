// Transposing a matrix of float32: out[j * rows + i] = in[i * stride + j].
#ifndef SLC_TRANSPOSE_CUH
#define SLC_TRANSPOSE_CUH

#include "device.cuh"

namespace slc {

enum { kTransposeSide = 32, kTransposeRows = 8 };

// transpose is a grid of blocks of 32 x 8 threads, 32 x 32 elements each, so that both reads and writes are in rows.
SLC_FN void transpose(const float *in, int64_t stride, int64_t rows, int64_t columns, float *out) {
	SLC_SHARED float tile[kTransposeSide][kTransposeSide + 1];
	const int x = (int)threadIdx.x, y = (int)threadIdx.y;
	const int64_t i0 = (int64_t)blockIdx.y * kTransposeSide, j0 = (int64_t)blockIdx.x * kTransposeSide;
	for (int r = y; r < kTransposeSide; r += kTransposeRows)
		if (i0 + r < rows && j0 + x < columns) tile[r][x] = in[(i0 + r) * stride + j0 + x];
	sync_block();
	for (int r = y; r < kTransposeSide; r += kTransposeRows)
		if (j0 + r < columns && i0 + x < rows) out[(j0 + r) * rows + i0 + x] = tile[x][r];
}

} // namespace slc
#endif
