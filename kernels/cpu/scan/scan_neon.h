// What the scans with NEON share.
#include <arm_neon.h>
#include <string.h>
#include "inline.h"
#include "scan.h"

INLINE uint32_t lanes_of(const int32_t *out) {
	static const uint8_t bit[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
	const int16x8_t low = vcombine_s16(vmovn_s32(vld1q_s32(out)), vmovn_s32(vld1q_s32(out + 4)));
	const int16x8_t high = vcombine_s16(vmovn_s32(vld1q_s32(out + 8)), vmovn_s32(vld1q_s32(out + 12)));
	const uint8x16_t lanes = vreinterpretq_u8_s8(vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
	const uint8x16_t bits = vandq_u8(lanes, vld1q_u8(bit));
	return vaddv_u8(vget_low_u8(bits)) | (uint32_t)vaddv_u8(vget_high_u8(bits)) << 8;
}
