//go:build amd64

// AVX-512: f32 panels.
#pragma GCC target("avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")
#include "pack_avx512.h"

void slc_pack_f32_avx512(slc_packing *p) {
	for (int64_t panel = p->from; panel < p->to; panel++) {
		sources s = sources_of(p, panel);
		__m512 squares[SLC_PANEL], none[SLC_PANEL];
		for (int i = 0; i < SLC_PANEL; i++) squares[i] = none[i] = _mm512_setzero_ps();
		float *to = (float *)p->data + panel * SLC_PANEL * p->dim;
		for (int64_t k = 0; k < p->dim; k += 16) {
			const int steps = p->dim - k < 16 ? (int)(p->dim - k) : 16;
			for (int half = 0; half < SLC_PANEL; half += 16) {
				__m512 words[16];
				for (int i = 0; i < 16; i++) {
					words[i] = sixteen(&s, half + i, k, p->dim);
					squares[half + i] = _mm512_fmadd_ps(words[i], words[i], squares[half + i]);
				}
				transpose(words);
				for (int j = 0; j < steps; j++) _mm512_store_ps(to + (k + j) * SLC_PANEL + half, words[j]);
			}
		}
		finish(p, &s, panel, squares, none, none);
		exact_terms(p, &s, panel);
	}
	// A cosine's elements are rounded once; scaling by a power of two is exact except for underflow.
	p->residual = (p->norms ? 0x1p-24 * p->norm * (1 + 0x1p-20) : 0) + 0x1p-149 * (double)p->dim;
}
