//go:build arm64

// NEON: two doubles at a time, fused; 3 x 2 pairs fill 24 of 32 registers.
// Scheduling before registers are assigned loads so early that sums are moved to memory.
#pragma GCC optimize("no-schedule-insns")
#include <arm_neon.h>
#define ISA neon
#define WIDTH 2
#define BLOCK_A 3
#define BLOCK_B 2
#define WIDEN(p) ((vec)vcvt_f64_f32(vld1_f32(p)))
#define MADD(s, x, y) ((vec)vfmaq_f64((float64x2_t)(s), (float64x2_t)(x), (float64x2_t)(y)))
#include "scores_body.h"
