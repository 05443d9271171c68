//go:build amd64 && !noamx

#define DTYPE SLC_I8
#define NAME slc_tiles_i8_amx
#include "tiles_amx_body.h"
