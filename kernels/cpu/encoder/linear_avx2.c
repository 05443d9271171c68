//go:build amd64

#pragma GCC target("avx2,fma")
#define ISA avx2
#define BLOCK_R 6
#define BLOCK_V 2
#include "lanes_avx2.h"
#include "linear_body.h"
