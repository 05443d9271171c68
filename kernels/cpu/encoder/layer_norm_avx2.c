//go:build amd64

#pragma GCC target("avx2,fma")
#define ISA avx2
#include "lanes_avx2.h"
#include "layer_norm_body.h"
