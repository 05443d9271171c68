//go:build amd64

#pragma GCC target("avx2,fma,bmi,popcnt,avxvnni")
#define ISA avxvnni
#define STEP(s, x, y) ((ivec)_mm256_dpwssd_avx_epi32((__m256i)(s), (__m256i)(x), (__m256i)(y)))
#include "tiles_i16_avx2.h"
