//go:build arm64

#include "optimize.h"

// NEON: 4 x 4 columns x 6 rows fill 29 of 32 registers, four times in a tile; two blocks of 4 rows remain.
#define ISA neon
#define BLOCK_V 4
#define BLOCK_R 6
#define BLOCK_ROWS 24
#define BLOCK_REST 4
#include "tiles_scalar.h"
#include "tiles_blocks_body.h"
