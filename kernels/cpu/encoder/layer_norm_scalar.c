//go:build amd64 || arm64

#define ISA scalar
#include "lanes_scalar.h"
#include "layer_norm_body.h"
