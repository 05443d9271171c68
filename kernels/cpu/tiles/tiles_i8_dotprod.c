//go:build arm64

#include "optimize.h"

// SDOT: i8 tiles in the blocks of tiles_neon.c, four products a lane and step.
#pragma GCC target("arch=armv8.2-a+dotprod")
#include "tiles_scalar.h"
#define ISA dotprod
#define BLOCK_V 4
#define BLOCK_R 6
#define BLOCK_ROWS 24
#define BLOCK_REST 4
#define I8
#define LOAD_WORDS(p) ((ivec)LOAD(p))
#define SET1_WORD(p) ((ivec)SET1(*(p)))
#define STEP(s, x, y) ((ivec)vdotq_s32((int32x4_t)(s), (int8x16_t)(x), (int8x16_t)(y)))
#define TO_FLOATS(s) ((vec)vcvtq_f32_s32((int32x4_t)(s)))
#include "tiles_blocks_body.h"
