//go:build arm64

// Panels of 8-bit codes and of bfloat16 for the tiles of arm64; the compiler vectorises the loops. A panel is
// [k / UNIT][32 vectors][UNIT elements].
#include "pack_pieces.h"

// place stores `size` bytes of each unit of a piece that begins at element k.
INLINE void place(void *panel, const void *piece, int64_t k, int64_t steps, int i, const int unit, const int size,
                  const int part, const int parts) {
	for (int64_t u = 0; u < PIECE / unit && k / unit + u < steps; u++)
		memcpy((uint8_t *)panel + (((k / unit + u) * parts + part) * SLC_PANEL + i) * size,
		       (const uint8_t *)piece + u * size, (size_t)size);
}

// pack_i8 makes codes round(x / step), step = max |x| / 127 of the vector.
INLINE void pack_i8(slc_packing *p, const int unit) {
	const int64_t steps = (p->dim + unit - 1) / unit;
	for (int64_t panel = p->from; panel < p->to; panel++)
		for (int i = 0; i < SLC_PANEL; i++) {
			const source s = source_of(p, panel, i);
			float x[PIECE], high[PIECE] = {0}, highest = 0;
			for (int64_t k = 0; k < p->dim; k += PIECE) {
				scaled(x, s, k, p->dim);
				for (int j = 0; j < PIECE; j++) {
					const float a = __builtin_fabsf(x[j]);
					high[j] = a > high[j] ? a : high[j];
				}
			}
			for (int j = 0; j < PIECE; j++) highest = high[j] > highest ? high[j] : highest;
			const float step = highest / 127 > 0x1p-100f ? highest / 127 : 0, inverse = step > 0 ? 1 / step : 0;
			double norm2 = 0, rest = 0;
			for (int64_t k = 0; k < p->dim; k += PIECE) {
				float squares[PIECE], lost[PIECE];
				int8_t code[PIECE];
				scaled(x, s, k, p->dim);
				for (int j = 0; j < PIECE; j++) {
					const float y = x[j] * inverse;
					int32_t c = (int32_t)(y + (y < 0 ? -.5f : .5f));
					c = c > 127 ? 127 : c < -127 ? -127 : c;
					const float d = x[j] - (float)c * step;
					code[j] = (int8_t)c, lost[j] = d * d, squares[j] = x[j] * x[j];
				}
				norm2 += sum_of(squares), rest += sum_of(lost);
				place((uint8_t *)p->data + panel * SLC_PANEL * steps * unit, code, k, steps, i, unit, unit, 0, 1);
			}
			widen(&p->norm, p->norms ? s.scale > 0 : norm2);
			widen(&p->residual, rest);
			p->steps[panel * SLC_PANEL + i] = step;
			exact_term(p, s, panel * SLC_PANEL + i);
		}
	// The float32 error, in addition to that of the codes.
	p->residual += 0x1p-22 * p->norm + 0x1p-74 * (double)p->dim;
}

void slc_pack_i8_dotprod(slc_packing *p) { pack_i8(p, 4); }
void slc_pack_i8_i8mm(slc_packing *p) { pack_i8(p, 8); }

// bf16 rounds to the nearest bfloat16, ties to even; the result is in the upper half.
INLINE uint32_t bf16(float x) {
	uint32_t u;
	memcpy(&u, &x, sizeof u);
	return (u + 0x7fff + (u >> 16 & 1)) & 0xffff0000;
}

// pack_bf16 splits x into `parts` bfloat16, each the rounded remainder of the previous ones.
INLINE void pack_bf16(slc_packing *p, const int parts) {
	enum { UNIT = 4, BYTES = 8 };
	const int64_t steps = (p->dim + UNIT - 1) / UNIT;
	for (int64_t panel = p->from; panel < p->to; panel++)
		for (int i = 0; i < SLC_PANEL; i++) {
			const source s = source_of(p, panel, i);
			double norm2 = 0, rest = 0, low = 0;
			int any = 0;
			for (int64_t k = 0; k < p->dim; k += PIECE) {
				float x[PIECE], squares[PIECE];
				scaled(x, s, k, p->dim);
				for (int j = 0; j < PIECE; j++) squares[j] = x[j] * x[j], any |= x[j] != 0;
				norm2 += sum_of(squares);
				for (int part = 0; part < parts; part++) {
					uint16_t bits[PIECE];
					for (int j = 0; j < PIECE; j++) {
						const uint32_t u = bf16(x[j]);
						float y;
						memcpy(&y, &u, sizeof y);
						bits[j] = (uint16_t)(u >> 16), x[j] -= y, squares[j] = y * y;
					}
					if (part == 1) low += sum_of(squares);
					place((uint8_t *)p->data + panel * SLC_PANEL * steps * parts * BYTES, bits, k, steps, i, UNIT,
					      BYTES, part, parts);
				}
				for (int j = 0; j < PIECE; j++) squares[j] = x[j] * x[j];
				rest += sum_of(squares);
			}
			if (norm2 < 0x1p-90 && any) p->is_short = 1;
			widen(&p->norm, p->norms ? s.scale > 0 : norm2);
			widen(&p->residual, rest);
			widen(&p->low, low);
			exact_term(p, s, panel * SLC_PANEL + i);
		}
	// The float32 error before the split, and squares too small for float32.
	p->residual += (p->norms ? 0x1p-24 * p->norm * (1 + 0x1p-20) : 0) + 0x1p-74 * (double)p->dim;
	p->low += 0x1p-74 * (double)p->dim;
}

void slc_pack_bf16_bf16(slc_packing *p) { pack_bf16(p, 1); }
void slc_pack_bf16x3_bf16(slc_packing *p) { pack_bf16(p, 2); }
