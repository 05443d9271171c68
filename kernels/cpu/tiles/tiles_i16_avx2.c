//go:build amd64

// AVX2: i16 tiles in register blocks of 2 x 8 columns x 6 rows (4 in the last two), two products a lane and step.
#pragma GCC target("avx2,fma,bmi,popcnt")
#define ISA avx2
#define BLOCK_V 2
#define BLOCK_R 6
#define BLOCK_ROWS 24
#define BLOCK_REST 4
#include "tiles_avx2.h"
#define I16
#define LOAD_WORDS(p) ((ivec)_mm256_loadu_si256((const __m256i *)(p)))
#define SET1_WORD(p) ((ivec)_mm256_castps_si256(_mm256_broadcast_ss(p)))
#define STEP(s, x, y) ((s) + (ivec)_mm256_madd_epi16((__m256i)(x), (__m256i)(y)))
#define TO_FLOATS(s) ((vec)_mm256_cvtepi32_ps((__m256i)(s)))
#include "tiles_blocks_body.h"
