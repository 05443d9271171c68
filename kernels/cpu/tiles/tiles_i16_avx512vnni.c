//go:build amd64

#include "optimize.h"

// AVX-512 VNNI: i16 tiles in register blocks of 2 x 16 columns x 8 rows, two products a lane and step.
#pragma GCC target("avx512f,avx512dq,avx512vl,avx512bw,avx512vnni,avx2,fma,bmi,popcnt")
#define ISA avx512vnni
#define BLOCK_V 2
#define BLOCK_R 8
#include "tiles_levels_avx512.h"
#define I16
// As an intrinsic, gcc 12 copies two sums of five from register to register, or through memory, around each step.
INLINE ivec dpwssd(ivec sum, ivec x, ivec y) {
	__asm__("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y));
	return sum;
}
#define LOAD_WORDS(p) _mm512_loadu_si512(p)
#define SET1_WORD(p) _mm512_castps_si512(SET1(*(p)))
#define STEP(s, x, y) dpwssd(s, x, y)
#define TO_FLOATS(s) _mm512_cvtepi32_ps(s)
#include "tiles_blocks_body.h"
