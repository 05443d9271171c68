// Positions of values to be kept, collected without a branch, for the AMX kernels, which count by comparisons.
#include "tiles_avx512.h"

#define POSITIONS

// Positions in a tile of values to be kept: one vector in four may have some, which is unpredictable for a branch.
typedef struct {
	int32_t n, at[SLC_TILE + 16];
} positions;

INLINE void add_positions(positions *s, __mmask16 m, int at) {
	_mm512_storeu_si512(s->at + s->n, _mm512_maskz_compress_epi32(m, _mm512_add_epi32(_mm512_set1_epi32(at),
		COUNT_UP)));
	s->n += __builtin_popcount(m);
}

// take_positions appends the values found in a tile; row and column are its first.
static inline void take_positions(slc_list *l, positions *s, const float *tile, uint32_t row, uint32_t column) {
	const __m512i inside = _mm512_set1_epi32(SLC_PANEL - 1), first = _mm512_set1_epi32((int)(row << 16 | column));
	for (int i = 0; i < s->n; i += 16) {
		__m512i at = _mm512_and_epi32(_mm512_loadu_si512(s->at + i), _mm512_set1_epi32(SLC_TILE - 1));
		__m512i v = _mm512_i32gather_epi32(at, tile, 4);
		__m512i place = _mm512_add_epi32(_mm512_slli_epi32(_mm512_srli_epi32(at, 5), 16), _mm512_and_epi32(at, inside));
		put_entries(l->entries + l->count + i, v, _mm512_add_epi32(place, first));
	}
	l->count += s->n;
}
