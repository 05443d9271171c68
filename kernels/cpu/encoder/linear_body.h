// The body of slc_linear_f32, compiled once per instruction set by linear_<isa>.c, which defines ISA and what
// block_body.h requires.
#include <string.h>

#include "linear.h"
#include "block_body.h"

// DEPTH is the maximum number of inputs of one sum: a panel's slice of 48 KiB, which is read from the second-level
// cache for each block of rows. Longer products are sums of such sums, which also limits their rounding error.
enum { DEPTH = 49152 / 4 / PANEL, STEP = 1 };

#define NAME PASTE(slc_linear_f32_, ISA)
#define SUMS(l, sums, k, row, rows, panel, next, begin, share) \
	multiply_rows(sums, (l)->x + (row) * (l)->x_stride + (k).from, (l)->x_stride, WEIGHTS(l, panel, (k).from), \
	              (k).steps, next, rows)
#define WEIGHTS(l, panel, from) ((const float *)(l)->weights + ((panel) * (l)->in + (from)) * PANEL)
#include "linear_loop_body.h"
