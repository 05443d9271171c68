#ifndef SLC_TRANSPOSE_H
#define SLC_TRANSPOSE_H

#include "slc.h"

// slc_transpose writes to[j*to_stride + i] = from[i*from_stride + j] for rows x cols floats. They must not overlap.
int32_t slc_transpose(float *to, int64_t to_stride, const float *from, int64_t from_stride, int64_t rows, int64_t cols,
                      slc_error *error);

// The function behind it, which does not check its arguments.
void slc_transpose_f32_scalar(float *to, int64_t to_stride, const float *from, int64_t from_stride, int64_t rows,
	int64_t cols);

#endif
