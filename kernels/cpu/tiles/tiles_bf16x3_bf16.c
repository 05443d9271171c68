//go:build arm64

#include "optimize.h"

// BFMMLA: bf16x3 tiles in chains of 32 elements, three products of each.
#define FORMAT slc_tiles_bf16x3_
enum { CHAIN = 8, PARTS = 2 };
#include "tiles_bf16.h"
