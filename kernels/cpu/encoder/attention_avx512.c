//go:build amd64

#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")
#define ISA avx512
#define BLOCK_R 12
#define BLOCK_V 2
#include "lanes_avx512.h"
#include "attention_body.h"
