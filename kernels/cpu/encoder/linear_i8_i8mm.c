//go:build arm64

// SMMLA multiplies eight inputs of two rows with two outputs: the bits of the dot products.
#pragma GCC target("arch=armv8.2-a+i8mm")
#define ISA i8mm
#define BLOCK_R 6
#define BLOCK_V 2
#define RUN 8
#define CODE_BYTES 1
#define OWN_PRODUCTS
#include "lanes_scalar.h"
#include "codes_neon.h"
#include "linear_i8_body.h"

// multiply_codes sums 2 x 2 values of rows and outputs in a vector; without a second row it takes the first again.
INLINE void multiply_codes(float *sums, const uint8_t *codes, int64_t code_stride, const float *steps,
		int64_t step_stride, const uint8_t *weights, int64_t groups, const uint8_t *next, const int fetches,
		const int rows) {
	enum { PAIRS = BLOCK_R / 2, OUTPUTS = PANEL / 2 };
	float32x4_t s[PAIRS][OUTPUTS];
#pragma GCC unroll 4
	for (int i = 0; i < PAIRS; i++)
#pragma GCC unroll 4
		for (int j = 0; j < OUTPUTS; j++) s[i][j] = vdupq_n_f32(0);
	for (int64_t g = 0; g < groups; g++, weights += GROUP_BYTES, codes += SLC_I8_GROUP) {
		int32x4_t n[PAIRS][OUTPUTS];
#pragma GCC unroll 4
		for (int i = 0; i < PAIRS; i++)
#pragma GCC unroll 4
			for (int j = 0; j < OUTPUTS; j++) n[i][j] = vdupq_n_s32(0);
#pragma GCC unroll 4
		for (int k = 0; k < RUNS; k++) {
			int8x16_t y[OUTPUTS];
			if (fetches)
#pragma GCC unroll 4
				for (int j = 0; j < GROUP_BYTES / RUNS; j += 64)
					__builtin_prefetch(next + (g * RUNS + k) * (GROUP_BYTES / RUNS) + j);
#pragma GCC unroll 4
			for (int j = 0; j < OUTPUTS; j++) y[j] = vld1q_s8((const int8_t *)weights + (k * PANEL + 2 * j) * RUN);
#pragma GCC unroll 4
			for (int i = 0; 2 * i < rows; i++) {
				const int8_t *c = (const int8_t *)codes + 2 * i * code_stride + k * RUN;
				const int8x16_t x = vcombine_s8(vld1_s8(c), vld1_s8(2 * i + 1 < rows ? c + code_stride : c));
#pragma GCC unroll 4
				for (int j = 0; j < OUTPUTS; j++) n[i][j] = vmmlaq_s32(n[i][j], x, y[j]);
			}
		}
		const float *scale = (const float *)(weights + (SLC_I8_GROUP + 4) * PANEL);
#pragma GCC unroll 4
		for (int i = 0; 2 * i < rows; i++) {
			const float *at = steps + 2 * i * step_stride + g;
			const float second = at[2 * i + 1 < rows ? step_stride : 0];
			const float32x4_t step = vcombine_f32(vdup_n_f32(at[0]), vdup_n_f32(second));
#pragma GCC unroll 4
			for (int j = 0; j < OUTPUTS; j++) {
				const float32x2_t two = vld1_f32(scale + 2 * j);
				s[i][j] = vfmaq_f32(s[i][j], step, vmulq_f32(vcvtq_f32_s32(n[i][j]), vcombine_f32(two, two)));
			}
		}
	}
#pragma GCC unroll 4
	for (int i = 0; 2 * i < rows; i++)
#pragma GCC unroll 4
		for (int j = 0; j < OUTPUTS; j++) {
			vst1_f32(sums + 2 * i * PANEL + 2 * j, vget_low_f32(s[i][j]));
			if (2 * i + 1 < rows) vst1_f32(sums + (2 * i + 1) * PANEL + 2 * j, vget_high_f32(s[i][j]));
		}
}
