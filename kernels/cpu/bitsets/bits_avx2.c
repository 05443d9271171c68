//go:build amd64

// AVX2: four words at a time.
#pragma GCC target("avx2,popcnt")
#define ISA avx2
#define WIDTH 4
#include "bits_body.h"
