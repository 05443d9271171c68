//go:build amd64

// AVX-512 VNNI: four products per lane and instruction.
#pragma GCC target("avx512f,avx512dq,avx512vl,avx512bw,avx512vnni,avx2,fma")
#include "scan_avx512.h"
#define NAME slc_scan_i8_avx512vnni
#include "scan_body.h"
