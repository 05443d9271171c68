//go:build amd64

#include "optimize.h"

// AVX2 with FMA: 2 x 8 columns x 6 rows fill 15 of 16 registers, four times in a tile; two blocks of 4 rows remain.
#pragma GCC target("avx2,fma,bmi,popcnt")
#define ISA avx2
#define BLOCK_V 2
#define BLOCK_R 6
#define BLOCK_ROWS 24
#define BLOCK_REST 4
#include "tiles_avx2.h"
#include "tiles_blocks_body.h"
