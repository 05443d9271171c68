//go:build amd64

#pragma GCC target("avx2,fma,bmi,popcnt")
#define ISA avx2
#define STEP(s, x, y) ((s) + (ivec)_mm256_madd_epi16((__m256i)(x), (__m256i)(y)))
#include "tiles_i16_avx2.h"
