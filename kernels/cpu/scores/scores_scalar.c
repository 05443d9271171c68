//go:build amd64 || arm64

// Baseline of the compiler's target: SSE2 on amd64, NEON on arm64, two doubles at a time.
#define ISA scalar
#define WIDTH 2
#define BLOCK_A 1
#define BLOCK_B 2
#define WIDEN(p) ((vec){(p)[0], (p)[1]})
#define MADD(s, x, y) ((s) + (x) * (y))
#include "scores_body.h"
