// The lowest bytes of the lanes of a vector, as codes.
#define CODES(p, v) store_bytes(p, v)

INLINE void store_bytes(uint8_t *p, ivec v) {
	const int16x4_t half = vmovn_s32((int32x4_t)v);
	const int32_t four = vget_lane_s32(vreinterpret_s32_s8(vmovn_s16(vcombine_s16(half, half))), 0);
	memcpy(p, &four, sizeof four);
}
