//go:build amd64

// AVX2: i16 panels; the compiler vectorises the loops.
#pragma GCC target("avx2,fma")
#include <string.h>
#include "inline.h"
#include "pack_codes.h"

enum { PIECE = 16 };

typedef struct {
	const float *x;
	double scale;
} source;

// scaled returns up to PIECE elements of a row from k on, scaled in float64 and rounded once, padded with zeros.
INLINE void scaled(float *out, source s, int64_t k, int64_t dim) {
	float x[PIECE] = {0};
	if (!s.x) k = dim;
	if (dim - k >= PIECE) memcpy(x, s.x + k, sizeof x);
	else if (dim > k) memcpy(x, s.x + k, (size_t)(dim - k) * sizeof x[0]);
	for (int j = 0; j < PIECE; j++) out[j] = (float)((double)x[j] * s.scale);
}

INLINE double sum_of(const float *x) {
	float sum[PIECE / 2];
	double all = 0;
	for (int j = 0; j < PIECE / 2; j++) sum[j] = x[j] + x[j + PIECE / 2];
	for (int j = 0; j < PIECE / 2; j++) all += (double)sum[j];
	return all;
}

// step_of computes a vector's step and its squared norm.
INLINE float step_of(source s, int64_t dim, double *norm2) {
	double longest = 0, all = 0;
	float high[PIECE] = {0}, highest = 0;
	for (int64_t k = 0; k < dim;) {
		float squares[PIECE] = {0};
		for (int64_t end = k + I16_CHAIN; k < dim && k < end; k += PIECE) {
			float x[PIECE];
			scaled(x, s, k, dim);
			for (int j = 0; j < PIECE; j++) {
				const float a = __builtin_fabsf(x[j]);
				squares[j] += a * a;
				high[j] = a > high[j] ? a : high[j];
			}
		}
		const double sum = sum_of(squares);
		all += sum;
		if (sum > longest) longest = sum;
	}
	for (int j = 0; j < PIECE; j++) highest = high[j] > highest ? high[j] : highest;
	*norm2 = all;
	return i16_step(longest, highest);
}

// widen updates the largest norm from a squared norm; NaN is preserved. Sums of squares use float32 lanes.
INLINE void widen(double *max, double square) {
	const double norm = __builtin_sqrt(square) * (1 + 1e-5);
	if (!(norm <= *max) && *max == *max) *max = norm;
}

void slc_pack_i16_avx2(slc_packing *p) {
	const int64_t words = (p->dim + 1) / 2;
	for (int64_t panel = p->from; panel < p->to; panel++) {
		int32_t *to = (int32_t *)p->data + panel * SLC_PANEL * words;
		source from[SLC_PANEL] = {0};
		float step[SLC_PANEL], inverse[SLC_PANEL];
		double norm2[SLC_PANEL], rest[SLC_PANEL] = {0};
		for (int i = 0; i < SLC_PANEL; i++) {
			const int64_t v = panel * SLC_PANEL + i, row = v >= p->n ? -1 : p->order ? p->order[v] : v;
			if (row >= 0) from[i] = (source){p->rows + row * p->stride,
				!p->norms ? p->scale : p->norms[row] > 0 ? 1 / p->norms[row] : 0};
			step[i] = step_of(from[i], p->dim, &norm2[i]);
			inverse[i] = step[i] > 0 ? 1 / step[i] : 0;
		}
		for (int64_t k = 0; k < p->dim; k += PIECE) {
			int32_t across[SLC_PANEL][PIECE / 2];
			for (int i = 0; i < SLC_PANEL; i++) {
				float x[PIECE], lost[PIECE];
				int16_t code[PIECE];
				scaled(x, from[i], k, p->dim);
				for (int j = 0; j < PIECE; j++) {
					const float y = x[j] * inverse[i];
					int32_t c = (int32_t)(y + (y < 0 ? -.5f : .5f));
					c = c > 32767 ? 32767 : c < -32767 ? -32767 : c;
					const float d = x[j] - (float)c * step[i];
					code[j] = (int16_t)c, lost[j] = d * d;
				}
				rest[i] += sum_of(lost);
				memcpy(across[i], code, sizeof code);
			}
			for (int64_t w = 0; w < PIECE / 2 && k / 2 + w < words; w++)
				for (int i = 0; i < SLC_PANEL; i++) to[(k / 2 + w) * SLC_PANEL + i] = across[i][w];
		}
		for (int i = 0; i < SLC_PANEL; i++) {
			widen(&p->norm, p->norms ? from[i].scale > 0 : norm2[i]);
			widen(&p->residual, rest[i]);
			p->steps[panel * SLC_PANEL + i] = step[i];
			if (!p->terms || !from[i].x) continue;
			double exact = 0;
			for (int64_t k = 0; k < p->dim; k += PIECE) {
				float x[PIECE];
				scaled(x, from[i], k, p->dim);
				for (int j = 0; j < PIECE; j++) exact += (double)x[j] * (double)x[j];
			}
			p->terms[panel * SLC_PANEL + i] = (float)(-0.5 * exact);
		}
	}
	// The float32 error, in addition to that of the codes.
	p->residual += 0x1p-22 * p->norm + 0x1p-74 * (double)p->dim;
}
