//go:build amd64

#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")
#define ISA avx512
#include "lanes_avx512.h"
#include "layer_norm_body.h"
