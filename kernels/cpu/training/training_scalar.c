//go:build amd64 || arm64

// Baseline of the compiler's target: SSE2 on amd64, NEON on arm64, four floats at a time.
#define ISA scalar
#define WIDTH 4
#define MADD(s, x, y) ((s) + (x) * (y))
#define ROOT1(x) __builtin_sqrtf(x)
#define ROOT(x) ((vec){ROOT1((x)[0]), ROOT1((x)[1]), ROOT1((x)[2]), ROOT1((x)[3])})
#include "training_body.h"
