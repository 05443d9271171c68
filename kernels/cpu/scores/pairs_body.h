// The body of the pair kernels, compiled once per instruction set by pairs_<isa>.c, which defines what scores_body.h
// requires (except BLOCK_A/B) and
//   PAIRS    pairs at a time: enough chains of additions to hide their latency
#include "canonical_body.h"
#include "pairs.h"

// group computes n pairs at once and prefetches the rows of the next group, which are scattered in memory.
INLINE void group(const float *const *a, const float *const *b, const float *const *next, int64_t dim, double *out,
		const int n, const int squares) {
	vec sum[PAIRS * PARTS];
#pragma GCC unroll 32
	for (int i = 0; i < n * PARTS; i++) sum[i] = (vec){0};
	for (int64_t k = 0; k < dim; k += 8) {
		float tail[2 * PAIRS][8];
		const int whole = k + 8 <= dim;
		if (k % 16 == 0)
#pragma GCC unroll 16
			for (int i = 0; i < 2 * n; i++) __builtin_prefetch(next[i] + k);
#pragma GCC unroll 8
		for (int i = 0; i < n; i++) {
			const float *x = a[i] + k, *y = b[i] + k;
			if (__builtin_expect(!whole, 0)) {
				memset(tail, 0, sizeof tail);
				memcpy(tail[2 * i], x, (size_t)(dim - k) * sizeof *x);
				memcpy(tail[2 * i + 1], y, (size_t)(dim - k) * sizeof *y);
				x = tail[2 * i], y = tail[2 * i + 1];
			}
#pragma GCC unroll 4
			for (int part = 0; part < PARTS; part++) {
				vec u = WIDEN(x + part * WIDTH), v = WIDEN(y + part * WIDTH), *s = &sum[i * PARTS + part];
				if (squares) {
					vec d = u - v, d2 = d * d;
					*s = *s + d2;
				} else {
					*s = MADD(*s, u, v);
				}
			}
		}
	}
#pragma GCC unroll 8
	for (int i = 0; i < n; i++) out[i] = fold(&sum[i * PARTS]);
}

INLINE int64_t row_of(const int32_t *list, int64_t i) { return list ? list[i] : 0; }

INLINE void list_sums(const slc_pair_list *l, const int squares) {
	for (int64_t i = 0; i < l->n; i += PAIRS) {
		const float *a[PAIRS], *b[PAIRS], *next[2 * PAIRS];
		const int n = l->n - i < PAIRS ? (int)(l->n - i) : PAIRS;
		for (int j = 0; j < PAIRS; j++) {
			int64_t now = i + (j < n ? j : 0), later = now + PAIRS < l->n ? now + PAIRS : now;
			a[j] = l->a + row_of(l->row_a, now) * l->stride_a, next[j] = l->a + row_of(l->row_a, later) * l->stride_a;
			b[j] = l->b + l->row_b[now] * l->stride_b, next[PAIRS + j] = l->b + l->row_b[later] * l->stride_b;
		}
		double out[PAIRS];
		group(a, b, next, l->dim, out, PAIRS, squares);
		memcpy(l->out + i, out, (size_t)n * sizeof *out);
	}
}

void PASTE(slc_pairs_f32_, ISA)(const slc_pair_list *l, int32_t metric) {
	if (metric == SLC_L2) {
		list_sums(l, 1);
		for (int64_t i = 0; i < l->n; i++) l->out[i] = __builtin_sqrt(l->out[i]);
		return;
	}
	list_sums(l, 0);
	if (metric == SLC_IP) return;
	for (int64_t i = 0; i < l->n; i++) { // as in scores_body.h
		double norms = l->norm_a[row_of(l->row_a, i)] * l->norm_b[l->row_b[i]], s = l->out[i] / norms;
		s = s > 1 ? 1 : s;
		s = s < -1 ? -1 : s;
		l->out[i] = norms == 0 ? 0 : s;
	}
}

// Vectors of floats, with twice as many elements as those of doubles.
typedef float floats __attribute__((vector_size(8 * WIDTH)));

INLINE float estimate(const float *a, const float *b, int64_t dim, const int squares) {
	floats sum[2] = {{0}, {0}};
	int64_t k = 0;
	for (; k + 4 * WIDTH <= dim; k += 4 * WIDTH)
#pragma GCC unroll 2
		for (int i = 0; i < 2; i++) {
			floats x, y;
			memcpy(&x, a + k + i * 2 * WIDTH, sizeof x);
			memcpy(&y, b + k + i * 2 * WIDTH, sizeof y);
			if (squares) x = y = x - y;
			sum[i] += x * y;
		}
	float f[2 * WIDTH], all = 0;
	sum[0] += sum[1];
	memcpy(f, sum, sizeof f);
	for (int i = 0; i < 2 * WIDTH; i++) all += f[i];
	for (; k < dim; k++) all += squares ? (a[k] - b[k]) * (a[k] - b[k]) : a[k] * b[k];
	return all;
}

void PASTE(slc_estimate_f32_, ISA)(const slc_pair_list *l, int32_t metric) {
	for (int64_t i = 0; i < l->n; i++) {
		const float *a = l->a + l->row_a[i] * l->stride_a, *b = l->b + l->row_b[i] * l->stride_b;
		const int64_t next = i + 2 < l->n ? i + 2 : i;
		const float *later = l->b + l->row_b[next] * l->stride_b;
		for (int64_t k = 0; k < l->dim; k += 16) __builtin_prefetch(later + k);
		l->estimate[i] = metric == SLC_L2 ? estimate(a, b, l->dim, 1) : estimate(a, b, l->dim, 0);
	}
}

void PASTE(slc_sum_f32_, ISA)(const float *a, int64_t stride, int64_t dim, const double *factor, const int32_t *rows,
		int64_t n, int64_t *out) {
	const double shift = 6; // numbers from 4 to 8 have a last bit of 2^-50
	uint64_t zero; // without a sign, so that a number beyond the bounds is a wrong sum and nothing worse
	memcpy(&zero, &shift, sizeof zero);
	for (int64_t i = 0; i < n; i++) {
		const float *row = a + rows[i] * stride;
		const double f = factor[rows[i]];
		for (int64_t k = 0; k < dim; k++) {
			const double product = f * (double)row[k], shifted = product + shift;
			uint64_t units;
			memcpy(&units, &shifted, sizeof units);
			out[k] = (int64_t)((uint64_t)out[k] + (units - zero));
		}
	}
}
