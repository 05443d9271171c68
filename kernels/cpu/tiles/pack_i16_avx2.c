//go:build amd64

// AVX2: i16 panels; the compiler vectorises the loops.
#pragma GCC target("avx2,fma")
#include "pack_pieces.h"
#include "pack_codes.h"

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

void slc_pack_i16_avx2(slc_packing *p) {
	const int64_t words = (p->dim + 1) / 2;
	for (int64_t panel = p->from; panel < p->to; panel++) {
		int32_t *to = (int32_t *)p->data + panel * SLC_PANEL * words;
		source from[SLC_PANEL];
		float step[SLC_PANEL], inverse[SLC_PANEL];
		double norm2[SLC_PANEL], rest[SLC_PANEL] = {0};
		for (int i = 0; i < SLC_PANEL; i++) {
			from[i] = source_of(p, panel, i);
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
			exact_term(p, from[i], panel * SLC_PANEL + i);
		}
	}
	// The float32 error, in addition to that of the codes.
	p->residual += 0x1p-22 * p->norm + 0x1p-74 * (double)p->dim;
}
