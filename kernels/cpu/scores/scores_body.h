// The body of the canonical score kernels, compiled once per instruction set by scores_<isa>.c (so it
// has no include guard; it ends in .h because Go's build cache hashes .h files only), which defines
//   ISA          suffix of the names
//   WIDTH        doubles per vector register: 2, 4 or 8
//   BLOCK_A/B    rows of a and b in a register block: BLOCK_A*BLOCK_B*(8/WIDTH) accumulators plus the operands must fit
//                the register file
//   WIDEN(p)     WIDTH floats at p, which need no alignment, as doubles
//   MADD(s,x,y)  s + x*y on vectors, fused or not: a product of two float32 is exact in float64, so both give the same
//                bits. Squares of differences are not exact, so they never use MADD.
#include "canonical_body.h"

// step adds eight elements of each of the block's pairs to their lanes.
INLINE void step(vec *sum, const float *const *a, const float *const *b, int na, int nb, int squares) {
#pragma GCC unroll 4
	for (int part = 0; part < PARTS; part++) {
		vec y[BLOCK_B];
#pragma GCC unroll 8
		for (int j = 0; j < nb; j++) y[j] = WIDEN(b[j] + part * WIDTH);
#pragma GCC unroll 8
		for (int i = 0; i < na; i++) {
			vec x = WIDEN(a[i] + part * WIDTH);
#pragma GCC unroll 8
			for (int j = 0; j < nb; j++) {
				vec *s = &sum[(i * nb + j) * PARTS + part];
				if (squares) {
					vec d = x - y[j], d2 = d * d;
					*s = *s + d2;
				} else {
					*s = MADD(*s, x, y[j]);
				}
			}
		}
	}
}

// block computes na x nb pairs; the sizes and `squares` are constants at each call.
INLINE void block(const float *a, int64_t stride_a, const float *b, int64_t stride_b, int64_t dim,
                  double *out, int64_t out_stride, int na, int nb, int squares) {
	vec sum[BLOCK_A * BLOCK_B * PARTS];
	const float *pa[BLOCK_A], *pb[BLOCK_B];
#pragma GCC unroll 8
	for (int i = 0; i < na; i++) pa[i] = a + i * stride_a;
#pragma GCC unroll 8
	for (int j = 0; j < nb; j++) pb[j] = b + j * stride_b;
#pragma GCC unroll 64
	for (int k = 0; k < na * nb * PARTS; k++) sum[k] = (vec){0};

	for (int64_t k = 0; k + 8 <= dim; k += 8) {
		step(sum, pa, pb, na, nb, squares);
#pragma GCC unroll 8
		for (int i = 0; i < na; i++) pa[i] += 8;
#pragma GCC unroll 8
		for (int j = 0; j < nb; j++) pb[j] += 8;
	}
	if (dim % 8 != 0) {
		float tail_a[BLOCK_A][8] = {{0}}, tail_b[BLOCK_B][8] = {{0}};
#pragma GCC unroll 8
		for (int i = 0; i < na; i++) {
			for (int k = 0; k < dim % 8; k++) tail_a[i][k] = pa[i][k];
			pa[i] = tail_a[i];
		}
#pragma GCC unroll 8
		for (int j = 0; j < nb; j++) {
			for (int k = 0; k < dim % 8; k++) tail_b[j][k] = pb[j][k];
			pb[j] = tail_b[j];
		}
		step(sum, pa, pb, na, nb, squares);
	}
#pragma GCC unroll 8
	for (int i = 0; i < na; i++)
#pragma GCC unroll 8
		for (int j = 0; j < nb; j++) out[i * out_stride + j] = fold(&sum[(i * nb + j) * PARTS]);
}

// strip computes na rows of a with all rows of b.
INLINE void strip(const float *a, int64_t stride_a, const float *b, int64_t rows_b, int64_t stride_b,
                  int64_t dim, double *out, int64_t out_stride, int na, int squares) {
	int64_t j = 0;
	for (; j + BLOCK_B <= rows_b; j += BLOCK_B)
		block(a, stride_a, b + j * stride_b, stride_b, dim, out + j, out_stride, na, BLOCK_B, squares);
	for (; j < rows_b; j++)
		block(a, stride_a, b + j * stride_b, stride_b, dim, out + j, out_stride, na, 1, squares);
}

INLINE void sums(const float *a, int64_t rows_a, int64_t stride_a, const float *b, int64_t rows_b,
                 int64_t stride_b, int64_t dim, double *out, int64_t out_stride, int squares) {
	int64_t i = 0;
	for (; i + BLOCK_A <= rows_a; i += BLOCK_A)
		strip(a + i * stride_a, stride_a, b, rows_b, stride_b, dim, out + i * out_stride, out_stride, BLOCK_A, squares);
	for (; i < rows_a; i++)
		strip(a + i * stride_a, stride_a, b, rows_b, stride_b, dim, out + i * out_stride, out_stride, 1, squares);
}

void PASTE(slc_scores_ip_f32_, ISA)(const float *a, int64_t rows_a, int64_t stride_a, const double *norm_a,
                                    const float *b, int64_t rows_b, int64_t stride_b, const double *norm_b,
                                    int64_t dim, double *out, int64_t out_stride) {
	(void)norm_a, (void)norm_b;
	sums(a, rows_a, stride_a, b, rows_b, stride_b, dim, out, out_stride, 0);
}

// cosine = dot / (norm_a * norm_b), clamped to [-1, 1]; 0 if a norm is 0.
void PASTE(slc_scores_cosine_f32_, ISA)(const float *a, int64_t rows_a, int64_t stride_a, const double *norm_a,
                                        const float *b, int64_t rows_b, int64_t stride_b, const double *norm_b,
                                        int64_t dim, double *out, int64_t out_stride) {
	sums(a, rows_a, stride_a, b, rows_b, stride_b, dim, out, out_stride, 0);
	for (int64_t i = 0; i < rows_a; i++) {
		double *row = out + i * out_stride;
		for (int64_t j = 0; j < rows_b; j++) {
			double norms = norm_a[i] * norm_b[j], s = row[j] / norms;
			s = s > 1 ? 1 : s;
			s = s < -1 ? -1 : s;
			row[j] = norms == 0 ? 0 : s;
		}
	}
}

void PASTE(slc_scores_l2_f32_, ISA)(const float *a, int64_t rows_a, int64_t stride_a, const double *norm_a,
                                    const float *b, int64_t rows_b, int64_t stride_b, const double *norm_b,
                                    int64_t dim, double *out, int64_t out_stride) {
	(void)norm_a, (void)norm_b;
	sums(a, rows_a, stride_a, b, rows_b, stride_b, dim, out, out_stride, 1);
	for (int64_t i = 0; i < rows_a; i++)
		for (int64_t j = 0; j < rows_b; j++) out[i * out_stride + j] = __builtin_sqrt(out[i * out_stride + j]);
}

void PASTE(slc_norms_f32_, ISA)(const float *a, int64_t rows, int64_t stride, int64_t dim, double *out) {
	for (int64_t i = 0; i < rows; i++) {
		block(a + i * stride, stride, a + i * stride, stride, dim, out + i, 1, 1, 1, 0);
		out[i] = __builtin_sqrt(out[i]);
	}
}

int64_t PASTE(slc_finite_f32_, ISA)(const float *a, int64_t rows, int64_t stride, int64_t dim) {
	for (int64_t i = 0; i < rows; i++) {
		const float *row = a + i * stride;
		uint32_t bad = 0; // an exponent of all ones is an infinity or a NaN
		for (int64_t k = 0; k < dim; k++) {
			uint32_t bits;
			memcpy(&bits, row + k, sizeof bits);
			bad |= (bits & 0x7f800000u) == 0x7f800000u;
		}
		if (bad) return i;
	}
	return -1;
}
