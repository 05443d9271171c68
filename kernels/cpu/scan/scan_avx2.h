// Shared by the AVX2 and the AVX-VNNI variant of the index scan.
#include <immintrin.h>
#include <string.h>
#include "inline.h"
#include "scan.h"

INLINE __m256i four(const int8_t *q) {
	int32_t x;
	memcpy(&x, q, sizeof x);
	return _mm256_set1_epi32(x);
}

INLINE uint32_t lanes_of(const int32_t *out) {
	__m256i half[2];
	memcpy(half, out, sizeof half);
	return (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(half[0])) |
	       (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(half[1])) << 8;
}
