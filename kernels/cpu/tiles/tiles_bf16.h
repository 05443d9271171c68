// BFMMLA adds four products of 2 rows and 2 columns an instruction, rounding in its own way: Bound.
#pragma GCC target("arch=armv8.2-a+bf16")
#include "tiles_scalar.h"
#define ISA bf16
#define SQUARES
enum { STEP_FLOATS = 64 * PARTS, VECTOR_FLOATS = 2 };
typedef vec sums;
#define WORDS(dim) (((dim) + 3) / 4)
#define SQUARE(s, x, y) ((vec)vbfmmlaq_f32((float32x4_t)(s), (bfloat16x8_t)(x), (bfloat16x8_t)(y)))
#define TO_FLOATS(s) (s)
#include "tiles_blocks_body.h"
