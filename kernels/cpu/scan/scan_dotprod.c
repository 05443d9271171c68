//go:build arm64

// SDOT adds the products of four dimensions of four rows. A nibble is a small signed byte.
#pragma GCC target("arch=armv8.2-a+dotprod")
#include "scan_neon.h"
#define NAME slc_scan_i8_dotprod

INLINE void section_dot(const uint8_t *b, const int8_t *q, int32_t *out) {
	int32x4_t sum[4];
#pragma GCC unroll 4
	for (int r = 0; r < 4; r++) sum[r] = vdupq_n_s32(0);
#define STEP(g) \
	_Pragma("GCC unroll 4") for (int r = 0; r < 4; r++) { \
		const uint8x16_t x = vld1q_u8(b + 64 * (g) + 16 * r); \
		const int8x16_t low = vreinterpretq_s8_u8(vandq_u8(x, vdupq_n_u8(15))); \
		const int8x16_t high = vreinterpretq_s8_u8(vshrq_n_u8(x, 4)); \
		sum[r] = vdotq_laneq_s32(sum[r], low, vld1q_s8(q + (g) / 4 * 16), (g) % 4); \
		sum[r] = vdotq_laneq_s32(sum[r], high, vld1q_s8(q + 32 + (g) / 4 * 16), (g) % 4); \
	}
	STEP(0) STEP(1) STEP(2) STEP(3) STEP(4) STEP(5) STEP(6) STEP(7)
#pragma GCC unroll 4
	for (int r = 0; r < 4; r++) vst1q_s32(out + 4 * r, sum[r]);
}

#include "scan_body.h"
