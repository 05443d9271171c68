//go:build arm64

#include "optimize.h"

// SMMLA: i8 tiles, eight products of 2 rows and 2 columns an instruction; whole sums are integers.
#pragma GCC target("arch=armv8.2-a+i8mm")
#include "tiles_scalar.h"
#define ISA i8mm
#define SQUARES
enum { CHAIN = 64, PARTS = 1, STEP_FLOATS = 64, VECTOR_FLOATS = 2 };
#define FORMAT slc_tiles_i8_
#define INTEGERS
typedef ivec sums;
#define WORDS(dim) (((dim) + 7) / 8)
#define SQUARE(s, x, y) ((ivec)vmmlaq_s32((int32x4_t)(s), (int8x16_t)(x), (int8x16_t)(y)))
#define TO_FLOATS(s) ((vec)vcvtq_f32_s32((int32x4_t)(s)))
#include "tiles_blocks_body.h"
