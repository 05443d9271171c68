//go:build amd64

#include "optimize.h"

// AVX-512F/BW/DQ/VL: 2 x 16 columns x 8 rows fill 16 of 32 registers; the rest counts the tile before.
#pragma GCC target("avx512f,avx512dq,avx512vl,avx512bw,avx2,fma,bmi,bmi2,popcnt")
#define ISA avx512
#define BLOCK_V 2
#define BLOCK_R 8
#include "tiles_levels_avx512.h"
#include "tiles_blocks_body.h"
