//go:build amd64 || arm64

// Checks the arguments of a transposition.
#include "fail.h"
#include "transpose.h"

int32_t slc_transpose(float *to, int64_t to_stride, const float *from, int64_t from_stride, int64_t rows, int64_t cols,
                      slc_error *error) {
	if (rows < 0 || cols < 0 || from_stride < cols || to_stride < rows || (rows && cols && (!to || !from)))
		FAIL(SLC_ERROR_SHAPE, "transpose: %lld rows of %lld with strides %lld and %lld", (long long)rows,
			(long long)cols,
		     (long long)from_stride, (long long)to_stride);
	slc_transpose_f32_scalar(to, to_stride, from, from_stride, rows, cols);
	return SLC_OK;
}
