// Shared by the packing kernels without registers of 512 bits: their source rows, and rows in pieces of 16 elements, in
// loops that the compiler vectorises.
#include <string.h>
#include "inline.h"
#include "pack.h"

enum { PIECE = 16 };

typedef struct {
	const float *x; // NULL: padding
	double scale;
} source;

// source_of returns vector i of a panel.
INLINE source source_of(const slc_packing *p, int64_t panel, int i) {
	const int64_t v = panel * SLC_PANEL + i, row = v >= p->n ? -1 : p->order ? p->order[v] : v;
	if (row < 0) return (source){0};
	return (source){p->rows + row * p->stride, !p->norms ? p->scale : p->norms[row] > 0 ? 1 / p->norms[row] : 0};
}

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

// widen updates the largest norm from a squared norm; NaN is preserved. Sums of squares use float32 lanes.
INLINE void widen(double *max, double square) {
	const double norm = __builtin_sqrt(square) * (1 + 1e-5);
	if (!(norm <= *max) && *max == *max) *max = norm;
}

// exact_term computes l2's -1/2 |x|^2 of a scaled row in float64.
INLINE void exact_term(slc_packing *p, source s, int64_t at) {
	if (!p->terms || !s.x) return;
	double exact = 0;
	for (int64_t k = 0; k < p->dim; k += PIECE) {
		float x[PIECE];
		scaled(x, s, k, p->dim);
		for (int j = 0; j < PIECE; j++) exact += (double)x[j] * (double)x[j];
	}
	p->terms[at] = (float)(-0.5 * exact);
}
