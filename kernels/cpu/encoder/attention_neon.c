//go:build arm64

#define ISA neon
#define BLOCK_R 6
#define BLOCK_V 4
#include "lanes_scalar.h"
#include "attention_body.h"
