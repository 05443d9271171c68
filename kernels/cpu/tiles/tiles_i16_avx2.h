// i16 tiles with 256 bits: register blocks of 2 x 8 columns x 6 rows (4 in the last two), two products a lane and step.
// A file that includes it defines ISA and STEP.
#define BLOCK_V 2
#define BLOCK_R 6
#define BLOCK_ROWS 24
#define BLOCK_REST 4
#include "tiles_avx2.h"
#define I16
#define LOAD_WORDS(p) ((ivec)_mm256_loadu_si256((const __m256i *)(p)))
#define SET1_WORD(p) ((ivec)_mm256_castps_si256(_mm256_broadcast_ss(p)))
#define TO_FLOATS(s) ((vec)_mm256_cvtepi32_ps((__m256i)(s)))
#include "tiles_blocks_body.h"
