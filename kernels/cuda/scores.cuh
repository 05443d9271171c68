// Canonical scores: the bits of kernels/ref on every device. Eight lanes of float64, lane l adding the terms i = l (mod
// 8) in order, then ((l0+l4)+(l2+l6)) + ((l1+l5)+(l3+l7)).
#ifndef SLC_SCORES_CUH
#define SLC_SCORES_CUH

#include "device.cuh"

namespace slc {

enum { kScoreSide = 16, kScoreDepth = 32, kPairThreads = 256 };

SLC_FN double term(float a, float b, bool squares) {
	if (!squares) return (double)a * (double)b; // exact, so that fusing it with the sum changes nothing
	const double d = add((double)a, -(double)b);
	return mul(d, d);
}

// finish turns a sum into a score.
SLC_FN double finish_score(double sum, int64_t metric, double norm_a, double norm_b) {
	if (metric == kL2) return sqrt(sum);
	if (metric == kIP) return sum;
	const double norms = mul(norm_a, norm_b);
	if (norms == 0) return 0;
	return max(min(sum / norms, 1.0), -1.0);
}

// scores writes those of 16 rows of a and 16 of b per block of 16 x 16 threads: out[i * stride + j].
SLC_FN void scores(const float *a, int64_t stride_a, const double *norms_a, int64_t n_a, const float *b,
		int64_t stride_b, const double *norms_b, int64_t n_b, int64_t dim, int64_t metric, double *out,
		int64_t out_stride) {
	SLC_SHARED float left[kScoreSide][kScoreDepth + 1], right[kScoreSide][kScoreDepth + 1];
	const int x = (int)threadIdx.x, y = (int)threadIdx.y, thread = y * kScoreSide + x;
	const int64_t i0 = (int64_t)blockIdx.y * kScoreSide, j0 = (int64_t)blockIdx.x * kScoreSide;
	const bool squares = metric == kL2;
	double sum[8] = {0, 0, 0, 0, 0, 0, 0, 0};
	for (int64_t k0 = 0; k0 < dim; k0 += kScoreDepth) {
		for (int at = thread; at < kScoreSide * kScoreDepth; at += kScoreSide * kScoreSide) {
			const int row = at / kScoreDepth, k = at % kScoreDepth;
			const bool in = k0 + k < dim; // what is beyond adds +0, which changes no sum that began with +0
			left[row][k] = in && i0 + row < n_a ? a[(i0 + row) * stride_a + k0 + k] : 0;
			right[row][k] = in && j0 + row < n_b ? b[(j0 + row) * stride_b + k0 + k] : 0;
		}
		sync_block();
		SLC_UNROLL
		for (int k = 0; k < kScoreDepth; k++) sum[k % 8] = add(sum[k % 8], term(left[y][k], right[x][k], squares));
		sync_block();
	}
	const double total = add(add(add(sum[0], sum[4]), add(sum[2], sum[6])),
		add(add(sum[1], sum[5]), add(sum[3], sum[7])));
	if (i0 + y < n_a && j0 + x < n_b)
		out[(i0 + y) * out_stride + j0 + x] = finish_score(total, metric, norms_a ? norms_a[i0 + y] : 0,
			norms_b ? norms_b[j0 + x] : 0);
}

// pair_sum is the sum of a pair, by eight threads of a warp, one a lane of the sum; the first of them gets it.
SLC_FN double pair_sum(const float *a, const float *b, int64_t dim, int64_t metric, int lane) {
	double sum = 0;
	for (int64_t k = lane; k < dim; k += 8) sum = add(sum, term(a[k], b[k], metric == kL2));
	// lanes 0 to 3 hold l + l4, then 0 and 1 hold (l0+l4)+(l2+l6) and (l1+l5)+(l3+l7)
	sum = add(sum, shuffle_xor(sum, 4));
	sum = add(sum, shuffle_xor(sum, 2));
	return add(sum, shuffle_xor(sum, 1));
}

// pairs writes the scores of rows rows_a[i] of a (its only one without a list) with rows rows_b[i] of b, eight threads
// a pair, one a lane of the sum.
SLC_FN void pairs(const float *a, int64_t stride_a, const double *norms_a, const int32_t *rows_a, const float *b,
		int64_t stride_b, const double *norms_b, const int32_t *rows_b, int64_t n, int64_t dim, int64_t metric,
		double *out) {
	const int64_t thread = (int64_t)blockIdx.x * kPairThreads + threadIdx.x, pair = thread / 8;
	const int lane = (int)(thread % 8);
	const int64_t at = pair < n ? pair : n - 1; // all threads of a warp take part in its shuffles
	const int64_t i = rows_a ? rows_a[at] : 0, j = rows_b[at];
	const double sum = pair_sum(a + i * stride_a, b + j * stride_b, dim, metric, lane);
	if (lane == 0 && pair < n)
		out[pair] = finish_score(sum, metric, norms_a ? norms_a[i] : 0, norms_b ? norms_b[j] : 0);
}

} // namespace slc
#endif
