//go:build amd64 && !noamx

#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")
#define ISA amx
#include "lanes_avx512.h"
#include "tile_ops_amx.h"
#include "linear_i8_amx_body.h"
#define CODE_BYTES 1
#define CODES BYTES
#include "codes_i8_body.h"
