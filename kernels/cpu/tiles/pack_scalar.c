//go:build amd64 || arm64

// Baseline of the compiler's target.
#define ISA scalar
#include "pack_body.h"
