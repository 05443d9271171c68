// Programs over sets of rows, a bit a row. See slc.h for the rules and types.
#ifndef SLC_BITS_H
#define SLC_BITS_H

#include "slc.h"

// Words of 64 rows in a set.
enum { SLC_BITS_WORDS = 32 };

typedef struct {
	int32_t set, both, either;
} slc_bits_step;

// slc_bits reads `sets` sets of SLC_BITS_WORDS words, one behind the other, and writes the last n of them in order, a
// set a step: it has the rows that both `set` and `both` have, and those of `either`. All three lie before the set that
// the step writes. *count is the number of rows of the last set, 0 without steps.
int32_t slc_bits(int32_t isa, uint64_t *words, int64_t sets, const slc_bits_step *steps, int64_t n, int64_t *count,
                 slc_error *error);

typedef int64_t slc_bits_fn(uint64_t *words, int64_t first, const slc_bits_step *steps, int64_t n);

slc_bits_fn slc_bits_scalar;
#if defined(__x86_64__)
slc_bits_fn slc_bits_avx2, slc_bits_avx512;
#endif

#endif
