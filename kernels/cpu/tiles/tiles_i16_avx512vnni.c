//go:build amd64

#include "optimize.h"

// AVX-512 VNNI: i16 tiles in register blocks of 2 x 16 columns x 7 rows (6 in the last three), two products a lane and
// step. The sums of a chain (14), of all chains (14), the columns (2) and a row's word fill 31 of 32 registers.
#pragma GCC target("avx512f,avx512dq,avx512vl,avx512bw,avx512vnni,avx2,fma,bmi,bmi2,popcnt")
#define ISA avx512vnni
#define BLOCK_V 2
#define BLOCK_R 7
#define BLOCK_ROWS 14
#define BLOCK_REST 6
#define WHOLE
#include "tiles_levels_avx512.h"
#define I16
// With a row's word from memory in each product, a Zen 5 would load more than it multiplies: it took 20 % longer. From
// intrinsics gcc 12 makes a loop with copies of registers, which takes 45 % longer.
INLINE ivec set1_word(const float *p) {
	ivec x;
	__asm__("vpbroadcastd %1, %0" : "=v"(x) : "m"(*p));
	return x;
}
INLINE ivec dpwssd(ivec sum, ivec x, ivec y) {
	__asm__("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(y), "v"(x));
	return sum;
}
#define SET1_WORD(p) set1_word(p)
#define STEP(s, x, y) dpwssd(s, x, y)
#define LOAD_WORDS(p) _mm512_loadu_si512(p)
#define TO_FLOATS(s) _mm512_cvtepi32_ps(s)
#include "tiles_blocks_body.h"
