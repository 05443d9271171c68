// The vector operations of tiles_body.h for AVX-512.
#include <immintrin.h>
#define W 16
typedef __m512 vec;
typedef __m512i ivec;
typedef __mmask16 mask;
#define LOAD(p) _mm512_loadu_ps(p)
#define STORE(p, v) _mm512_storeu_ps(p, v)
#define STREAM(p, v) _mm512_stream_ps(p, v)
#define SET1(x) _mm512_set1_ps(x)
#define MADD(s, x, y) _mm512_fmadd_ps(x, y, s)
#define MAX(a, b) _mm512_max_ps(a, b)
#define SQRT(a) _mm512_sqrt_ps(a)
#define GE(a, b) _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ)
#define LE_AND(m, a, b) _mm512_mask_cmp_ps_mask(m, a, b, _CMP_LE_OQ)
#define OR(m, n) _kor_mask16(m, n)
#define BITS(m) ((uint32_t)(m))
#define COUNT(n, m) ((n) = _mm512_mask_sub_epi32(n, m, n, _mm512_set1_epi32(-1)))
#define WHERE(m, a) _mm512_maskz_mov_ps(m, a)
#define APPEND append_compressed

#include "inline.h"
#include "tiles.h"

// Entries are pairs of words: value and position.
INLINE void put_entries(slc_entry *to, __m512i value, __m512i at) {
	const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
	_mm512_storeu_si512(to, _mm512_permutex2var_epi32(value, low, at));
	_mm512_storeu_si512(to + 8, _mm512_permutex2var_epi32(value, _mm512_add_epi32(low, _mm512_set1_epi32(8)), at));
}

#define COUNT_UP _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)

// put_compressed writes the entries of 16 values whose bit is set, without a branch per value.
INLINE slc_entry *put_compressed(slc_entry *to, const float *values, uint32_t bits, uint32_t at) {
	const __mmask16 m = (__mmask16)bits;
	put_entries(to, _mm512_maskz_compress_epi32(m, _mm512_loadu_si512(values)),
		_mm512_maskz_compress_epi32(m, _mm512_add_epi32(_mm512_set1_epi32((int)at), COUNT_UP)));
	return to + __builtin_popcount(m);
}

INLINE void append_compressed(slc_list *l, const float *row, uint32_t bits, uint32_t at) {
	slc_entry *to = put_compressed(l->entries + l->count, row, bits, at);
	l->count = put_compressed(to, row + W, bits >> W, at + W) - l->entries;
}
