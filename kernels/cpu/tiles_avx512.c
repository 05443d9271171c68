//go:build amd64

// AVX-512F/DQ/VL: 2 x 16 lanes x 8 rows fill 16 of 32 registers.
#pragma GCC target("avx512f,avx512dq,avx512vl,avx2,fma,bmi,popcnt")
#define ISA avx512
#include "tiles_avx512.h"
#include "tiles_f32_body.h"
