//go:build amd64 && !noamx

#define DTYPE SLC_BF16
#define NAME slc_tiles_bf16_amx
#include "tiles_amx_body.h"
