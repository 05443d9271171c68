//go:build amd64 && !noamx

#define DTYPE SLC_F32
#define NAME slc_tiles_f32_amx
#include "tiles_amx_body.h"
