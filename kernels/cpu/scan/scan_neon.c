//go:build arm64

// NEON: sums of 16 bits, which 16 products of at most 15·127 do not overflow.
#include "scan_neon.h"
#define NAME slc_scan_i8_neon

INLINE int8x16_t four(const int8_t *q) {
	int32_t x;
	memcpy(&x, q, sizeof x);
	return vreinterpretq_s8_s32(vdupq_n_s32(x));
}

INLINE void section_dot(const uint8_t *b, const int8_t *q, int32_t *out) {
	int16x8_t sum[4][2];
#pragma GCC unroll 4
	for (int r = 0; r < 4; r++) sum[r][0] = sum[r][1] = vdupq_n_s16(0);
#pragma GCC unroll 8
	for (int g = 0; g < 8; g++) {
		const int8x16_t q0 = four(q + 4 * g), q1 = four(q + 32 + 4 * g);
#pragma GCC unroll 4
		for (int r = 0; r < 4; r++) {
			const uint8x16_t x = vld1q_u8(b + 64 * g + 16 * r);
			const int8x16_t low = vreinterpretq_s8_u8(vandq_u8(x, vdupq_n_u8(15)));
			const int8x16_t high = vreinterpretq_s8_u8(vshrq_n_u8(x, 4));
			sum[r][0] = vmlal_s8(sum[r][0], vget_low_s8(low), vget_low_s8(q0));
			sum[r][1] = vmlal_high_s8(sum[r][1], low, q0);
			sum[r][0] = vmlal_s8(sum[r][0], vget_low_s8(high), vget_low_s8(q1));
			sum[r][1] = vmlal_high_s8(sum[r][1], high, q1);
		}
	}
#pragma GCC unroll 4
	for (int r = 0; r < 4; r++) vst1q_s32(out + 4 * r, vpaddq_s32(vpaddlq_s16(sum[r][0]), vpaddlq_s16(sum[r][1])));
}

#include "scan_body.h"
