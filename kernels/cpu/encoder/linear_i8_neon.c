//go:build arm64

// Scheduling before registers are assigned loads so early that sums are moved to memory.
#pragma GCC optimize("no-schedule-insns")
#define ISA neon
#define BLOCK_R 6
#define BLOCK_V 2
#define RUN 4
#include "lanes_scalar.h"
#include "codes_neon.h"
#define WORD(x) ((ivec)vdupq_n_s32(x))
#define WORDS(p) ((ivec)vld1q_u8(p))
#define START(p) ((ivec){0, 0, 0, 0})
#define DOT(s, x, y) add_products(s, (int8x16_t)(x), (int8x16_t)(y))

// Two products of codes of at most 127 fit 16 bits.
INLINE ivec add_products(ivec s, int8x16_t x, int8x16_t y) {
	const int16x8_t low = vmull_s8(vget_low_s8(x), vget_low_s8(y)), high = vmull_high_s8(x, y);
	return (ivec)vpadalq_s16((int32x4_t)s, vpaddq_s16(low, high));
}

#include "linear_i8_body.h"
