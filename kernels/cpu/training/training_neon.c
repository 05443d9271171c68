//go:build arm64

// NEON: four floats at a time, fused.
#include <arm_neon.h>
#define ISA neon
#define WIDTH 4
#define MADD(s, x, y) ((vec)vfmaq_f32((float32x4_t)(s), (float32x4_t)(x), (float32x4_t)(y)))
#define ROOT(x) ((vec)vsqrtq_f32((float32x4_t)(x)))
#include "training_body.h"
