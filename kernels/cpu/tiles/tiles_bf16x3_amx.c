//go:build amd64 && !noamx

#define DTYPE SLC_BF16X3
#define NAME slc_tiles_bf16x3_amx
#include "tiles_amx_body.h"
