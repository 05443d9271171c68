// Shared by the VNNI and the AMX variant of the index scan.
#include <immintrin.h>
#include <string.h>
#include "inline.h"
#include "scan.h"

INLINE __m512i four(const int8_t *q) {
	int32_t x;
	memcpy(&x, q, sizeof x);
	return _mm512_set1_epi32(x);
}

INLINE void section_dot(const uint8_t *b, const int8_t *q, int32_t *out) {
	const __m512i lower = _mm512_set1_epi8(15), upper = _mm512_set1_epi8((char)0xf0);
	// two chains each, because a product has a higher latency than loading a line; high ones are 16 times too large
	__m512i low[2], high[2];
	low[0] = low[1] = high[0] = high[1] = _mm512_setzero_si512();
#pragma GCC unroll 8
	for (int g = 0; g < 8; g++) {
		__m512i x = _mm512_loadu_si512(b + 64 * g);
		low[g & 1] = _mm512_dpbusd_epi32(low[g & 1], _mm512_and_si512(x, lower), four(q + 4 * g));
		high[g & 1] = _mm512_dpbusd_epi32(high[g & 1], _mm512_and_si512(x, upper), four(q + 32 + 4 * g));
	}
	_mm512_store_si512(out, _mm512_add_epi32(_mm512_add_epi32(low[0], low[1]),
		_mm512_srai_epi32(_mm512_add_epi32(high[0], high[1]), 4)));
}

INLINE uint32_t lanes_of(const int32_t *out) { return _mm512_movepi32_mask(_mm512_load_si512(out)); }
