//go:build amd64 || arm64

// Baseline of the compiler's target: SSE2 on amd64, NEON on arm64, two words at a time.
#define ISA scalar
#define WIDTH 2
#include "bits_body.h"
