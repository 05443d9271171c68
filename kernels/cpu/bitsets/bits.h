// Programs over sets of rows, one bit per row. See slc.h for the rules and types.
#ifndef SLC_BITS_H
#define SLC_BITS_H

#include "slc.h"

// 64-bit words per set.
enum { SLC_BITS_WORDS = 32 };

typedef struct {
	int32_t set, both, either;
} slc_bits_step;

// slc_bits takes `sets` consecutive sets of SLC_BITS_WORDS words and writes the last n of them in order, one per step:
// (`set` & `both`) | `either`. All three sets of a step precede the set that it writes. *count is the number of rows of
// the last set, 0 without steps.
int32_t slc_bits(int32_t isa, uint64_t *words, int64_t sets, const slc_bits_step *steps, int64_t n, int64_t *count,
                 slc_error *error);

typedef int64_t slc_bits_fn(uint64_t *words, int64_t first, const slc_bits_step *steps, int64_t n);

slc_bits_fn slc_bits_scalar;
#if defined(__x86_64__)
slc_bits_fn slc_bits_avx2, slc_bits_avx512;
#endif

#endif
