//go:build amd64

// AVX-512 VNNI: i16 tiles in register blocks of 2 x 16 columns x 8 rows, two products a lane and step.
#pragma GCC target("avx512f,avx512dq,avx512vl,avx512bw,avx512vnni,avx2,fma,bmi,popcnt")
#define ISA avx512vnni
#define BLOCK_V 2
#define BLOCK_R 8
#define PENDING_STEPS 16
#include "tiles_signs_avx512.h"
#define I16
#define LOAD_WORDS(p) _mm512_loadu_si512(p)
#define SET1_WORD(p) _mm512_castps_si512(SET1(*(p)))
#define STEP(s, x, y) _mm512_dpwssd_epi32(s, x, y)
#define TO_FLOATS(s) _mm512_cvtepi32_ps(s)
#include "tiles_blocks_body.h"
