// BYTES stores the lowest byte of each lane.
#include "inline.h"

INLINE void store_bytes(void *p, ivec v) {
	const __m256i low = _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 4, 8, 12, -1,
	                                     -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
	__m256i bytes = _mm256_shuffle_epi8((__m256i)v, low);
	bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 0, 0, 0, 0, 0, 0));
	_mm_storel_epi64((__m128i *)p, _mm256_castsi256_si128(bytes));
}

#define BYTES(p, v) store_bytes(p, v)
