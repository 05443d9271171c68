//go:build amd64 || arm64

// Baseline of the compiler's target: SSE2 on amd64, NEON on arm64, four floats at a time.
#define ISA scalar
#define WIDTH 4
#define MADD(s, x, y) ((s) + (x) * (y))
#define ROOT(x) ((vec){__builtin_sqrtf((x)[0]), __builtin_sqrtf((x)[1]), __builtin_sqrtf((x)[2]), __builtin_sqrtf((x)[3])})
#include "training_body.h"
