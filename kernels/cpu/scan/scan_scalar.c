//go:build amd64 || arm64

// Baseline of the compiler's target: 16-bit sums, which 16 products of at most 15·127 do not overflow.
#include "inline.h"
#include "scan.h"
#define NAME slc_scan_i8_scalar

INLINE void section_dot(const uint8_t *b, const int8_t *q, int32_t *out) {
	int16_t sum[64] = {0};
	for (int g = 0; g < 8; g++) {
		int16_t low[8], high[8];
		for (int i = 0; i < 8; i++) low[i] = q[4 * g + i % 4], high[i] = q[32 + 4 * g + i % 4];
		for (int j = 0; j < 64; j += 8)
			for (int i = 0; i < 8; i++)
				sum[j + i] += (int16_t)((b[64 * g + j + i] & 15) * low[i] + (b[64 * g + j + i] >> 4) * high[i]);
	}
	for (int lane = 0; lane < 16; lane++)
		out[lane] = sum[4 * lane] + sum[4 * lane + 1] + sum[4 * lane + 2] + sum[4 * lane + 3];
}

INLINE uint32_t lanes_of(const int32_t *out) {
	uint32_t bits = 0;
	for (int lane = 0; lane < 16; lane++) bits |= (uint32_t)(out[lane] & 1) << lane;
	return bits;
}

#include "scan_body.h"
