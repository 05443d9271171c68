//go:build arm64

#include "optimize.h"

// BFMMLA: bf16 tiles in chains of 256 products.
#define FORMAT slc_tiles_bf16_
enum { CHAIN = 64, PARTS = 1 };
#include "tiles_bf16.h"
