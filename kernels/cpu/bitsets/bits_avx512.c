//go:build amd64

// AVX-512F: eight words at a time, with one instruction for both operations of a step.
#pragma GCC target("avx512f,avx2,popcnt")
#define ISA avx512
#define WIDTH 8
#include "bits_body.h"
