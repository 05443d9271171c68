//go:build amd64

// AVX-512F/DQ/VL: 2 x 16 columns x 8 rows fill 16 of 32 registers; the rest counts the tile before, a vector every 16
// steps: more at once would hold up the multiply-adds.
#pragma GCC target("avx512f,avx512dq,avx512vl,avx2,fma,bmi,popcnt")
#define ISA avx512
#define BLOCK_V 2
#define BLOCK_R 8
#define PENDING_STEPS 16
#include "tiles_signs_avx512.h"
#include "tiles_blocks_body.h"
