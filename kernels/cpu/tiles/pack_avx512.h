// Shared by the packing kernels of 512-bit instruction sets.
#include <immintrin.h>
#include <string.h>
#include "inline.h"
#include "pack.h"


// A panel's source rows and their factors.
typedef struct {
	const float *row[SLC_PANEL];
	double scale[SLC_PANEL];
	int64_t next; // distance from a row to the row in the same position of the next panel
	int n;
} sources;

static sources sources_of(const slc_packing *p, int64_t panel) {
	sources s = {.next = p->order ? 0 : SLC_PANEL * p->stride, .n = SLC_PANEL};
	if (p->n - panel * SLC_PANEL < SLC_PANEL) s.n = (int)(p->n - panel * SLC_PANEL);
	for (int i = 0; i < s.n; i++) {
		int64_t v = panel * SLC_PANEL + i, row = p->order ? p->order[v] : v;
		s.row[i] = p->rows + row * p->stride;
		s.scale[i] = !p->norms ? p->scale : p->norms[row] > 0 ? 1 / p->norms[row] : 0;
	}
	return s;
}

// sixteen returns up to 16 elements of a row from k on, scaled in float64 and rounded once.
INLINE __m512 sixteen(const sources *s, int i, int64_t k, int64_t dim) {
	if (i >= s->n || k >= dim) return _mm512_setzero_ps();
	__mmask16 m = dim - k >= 16 ? 0xffff : (__mmask16)((1u << (dim - k)) - 1);
	__m512 x = _mm512_maskz_loadu_ps(m, s->row[i] + k);
	__builtin_prefetch(s->row[i] + s->next + k, 0, 2);
	__m512d scale = _mm512_set1_pd(s->scale[i]);
	__m256 low = _mm512_cvtpd_ps(_mm512_mul_pd(_mm512_cvtps_pd(_mm512_castps512_ps256(x)), scale));
	__m256 high = _mm512_cvtpd_ps(_mm512_mul_pd(_mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1)), scale));
	return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
}

// transpose transposes 16 lines of 16 words of 4 bytes.
INLINE void transpose(__m512 r[16]) {
	__m512 t[16];
	for (int i = 0; i < 16; i += 4) { // words between pairs of lines, then pairs of words
		__m512 a = _mm512_unpacklo_ps(r[i], r[i + 1]), b = _mm512_unpackhi_ps(r[i], r[i + 1]);
		__m512 c = _mm512_unpacklo_ps(r[i + 2], r[i + 3]), d = _mm512_unpackhi_ps(r[i + 2], r[i + 3]);
		t[i] = _mm512_shuffle_ps(a, c, 0x44), t[i + 1] = _mm512_shuffle_ps(a, c, 0xee);
		t[i + 2] = _mm512_shuffle_ps(b, d, 0x44), t[i + 3] = _mm512_shuffle_ps(b, d, 0xee);
	}
	for (int i = 0; i < 4; i++) { // blocks of four words between fours of lines
		__m512 a = _mm512_shuffle_f32x4(t[i], t[i + 4], 0x88), b = _mm512_shuffle_f32x4(t[i], t[i + 4], 0xdd);
		__m512 c = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0x88), d = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0xdd);
		r[i] = _mm512_shuffle_f32x4(a, c, 0x88), r[i + 8] = _mm512_shuffle_f32x4(a, c, 0xdd);
		r[i + 4] = _mm512_shuffle_f32x4(b, d, 0x88), r[i + 12] = _mm512_shuffle_f32x4(b, d, 0xdd);
	}
}

// widen updates the largest norm; NaN is preserved.
INLINE void widen(double *max, double square, double slack) {
	double norm = __builtin_sqrt(square) * slack;
	if (!(norm <= *max) && *max == *max) *max = norm;
}

// finish updates the maxima for a panel: sums of squares use float32 lanes (hence the slack of 1e-5).
INLINE void finish(slc_packing *p, const sources *s, int64_t panel, const __m512 *squares, const __m512 *rest,
		const __m512 *low) {
	for (int i = 0; i < SLC_PANEL; i++) {
		float norm2 = _mm512_reduce_add_ps(squares[i]);
		if (p->norms) norm2 = i < s->n && s->scale[i] > 0;
		widen(&p->norm, norm2, 1 + 1e-5);
		widen(&p->residual, _mm512_reduce_add_ps(rest[i]), 1 + 1e-5);
		widen(&p->low, _mm512_reduce_add_ps(low[i]), 1 + 1e-5);
		if (p->terms) p->terms[panel * SLC_PANEL + i] = 0;
	}
}

// exact_terms computes l2's -1/2 |x|^2 of the scaled rows in float64.
static void exact_terms(slc_packing *p, const sources *s, int64_t panel) {
	if (!p->terms) return;
	for (int i = 0; i < s->n; i++) {
		__m512d sum = _mm512_setzero_pd();
		for (int64_t k = 0; k < p->dim; k += 16) {
			__m512 x = sixteen(s, i, k, p->dim);
			__m512d a = _mm512_cvtps_pd(_mm512_castps512_ps256(x)), b = _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
			sum = _mm512_fmadd_pd(a, a, _mm512_fmadd_pd(b, b, sum));
		}
		p->terms[panel * SLC_PANEL + i] = (float)(-0.5 * _mm512_reduce_add_pd(sum));
	}
}
