//go:build amd64 || arm64

#define ISA scalar
#define BLOCK_R 4
#define BLOCK_V 2
#include "lanes_scalar.h"
#include "attention_body.h"
