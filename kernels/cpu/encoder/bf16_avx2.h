// The same as BF16 of bf16_avx512.h, bit for bit.
#define BF16(p, a, b) store_bf16(p, a, b)

// bf16_halves is VCVTNEPS2BF16: round to nearest even bfloat16; values below 2^-126 become 0; NaN stays NaN.
INLINE ivec bf16_halves(vec x) {
	const ivec bits = (ivec)x, magnitude = bits & 0x7fffffff;
	const ivec rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16, cut = bits >> 16;
	const ivec nan = magnitude > 0x7f800000, tiny = magnitude < 0x00800000;
	const ivec number = (rounded & ~tiny) | (cut & tiny & (int32_t)0xffff8000);
	return (number & ~nan) | ((cut | 0x40) & nan);
}

INLINE void store_bf16(uint8_t *p, vec a, vec b) {
	const ivec u = bf16_halves(a), v = bf16_halves(b);
	for (int i = 0; i < W; i++) {
		const uint16_t x = (uint16_t)u[i], y = (uint16_t)v[i];
		memcpy(p + 2 * i, &x, 2);
		memcpy(p + 2 * (W + i), &y, 2);
	}
}
