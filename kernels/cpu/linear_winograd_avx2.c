//go:build amd64

#pragma GCC target("avx2,fma")
#define ISA avx2
#define BLOCK_R 2
#define BLOCK_V 4
#define PAIRED 2
#include "lanes_avx2.h"
#define ADD(t, y, x) t = (y) + SET1(*(x))
#define MULTIPLY1(s, y, x) s = MADD(s, y, SET1(*(x)))
#define MULTIPLY(s, t, u) s = MADD(s, t, u)
#include "linear_winograd_body.h"
