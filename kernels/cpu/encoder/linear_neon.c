//go:build arm64

// 6 x 4 vectors of sums fill 24 of 32 registers.
#define ISA neon
#define BLOCK_R 6
#define BLOCK_V 4
#include "lanes_scalar.h"
#include "linear_body.h"
