//go:build amd64

#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")
#define ISA avx512
#define BLOCK_R 8
#define BLOCK_V 3
#define PAIRED 2
#include "lanes_avx512.h"
// As operands in memory, values for all lanes take no place in the arithmetic units, which loads of their own do on AMD.
#define ADD(t, y, x) __asm__ volatile("vaddps %2%{1to16%}, %1, %0" : "=v"(t) : "v"(y), "m"(*(x)))
#define MULTIPLY1(s, y, x) __asm__ volatile("vfmadd231ps %2%{1to16%}, %1, %0" : "+v"(s) : "v"(y), "m"(*(x)))
#define MULTIPLY(s, t, u) __asm__ volatile("vfmadd231ps %1, %2, %0" : "+v"(s) : "v"(t), "v"(u))
#include "linear_winograd_body.h"
