//go:build amd64

// AVX2: the compiler vectorises the body.
#pragma GCC target("avx2,fma")
#define ISA avx2
#include "pack_body.h"
