//go:build amd64 || arm64

#include "optimize.h"

// Baseline of the compiler's target, for 16 registers.
#define ISA scalar
#define BLOCK_V 2
#define BLOCK_R 4
#include "tiles_scalar.h"
#include "tiles_blocks_body.h"
