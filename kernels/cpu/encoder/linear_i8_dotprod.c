//go:build arm64

#pragma GCC target("arch=armv8.2-a+dotprod")
// Scheduling before registers are assigned loads so early that sums are moved to memory.
#pragma GCC optimize("no-schedule-insns")
#define ISA dotprod
#define BLOCK_R 6
#define BLOCK_V 2
#define RUN 4
#include "lanes_scalar.h"
#include "codes_neon.h"
#define WORD(x) ((ivec)vdupq_n_s32(x))
#define WORDS(p) ((ivec)vld1q_u8(p))
#define START(p) ((ivec){0, 0, 0, 0})
#define DOT(s, x, y) ((ivec)vdotq_s32((int32x4_t)(s), (int8x16_t)(x), (int8x16_t)(y)))
#include "linear_i8_body.h"
