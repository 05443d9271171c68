//go:build amd64 && !noamx

#pragma GCC target("avx2,fma")
#define ISA amx_emulated
#include "lanes_avx2.h"
#include "bytes_avx2.h"
#include "tile_ops_emulated.h"
#include "linear_i8_amx_body.h"
#define CODE_BYTES 1
#define CODES BYTES
#include "codes_i8_body.h"
