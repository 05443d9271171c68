//go:build amd64 && !noamx

#pragma GCC target("avx2,fma")
#define ISA amx_emulated
#include "lanes_avx2.h"
#include "tile_ops_emulated.h"
#include "bf16_avx2.h"
#include "attention_bf16_body.h"
