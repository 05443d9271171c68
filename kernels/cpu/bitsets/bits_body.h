// The steps of a program over sets, WIDTH words of 64 bits at a time.
#include "bits.h"
#include "inline.h"

typedef uint64_t vec __attribute__((vector_size(8 * WIDTH)));
typedef uint64_t unaligned __attribute__((vector_size(8 * WIDTH), aligned(8)));

int64_t PASTE(slc_bits_, ISA)(uint64_t *words, int64_t first, const slc_bits_step *steps, int64_t n) {
	uint64_t *to = words + first * SLC_BITS_WORDS;
	for (int64_t i = 0; i < n; i++, to += SLC_BITS_WORDS) {
		const uint64_t *set = words + (int64_t)steps[i].set * SLC_BITS_WORDS;
		const uint64_t *both = words + (int64_t)steps[i].both * SLC_BITS_WORDS;
		const uint64_t *either = words + (int64_t)steps[i].either * SLC_BITS_WORDS;
		for (int w = 0; w < SLC_BITS_WORDS; w += WIDTH) {
			vec x = *(const unaligned *)(set + w), y = *(const unaligned *)(both + w);
			vec z = *(const unaligned *)(either + w);
			*(unaligned *)(to + w) = (x & y) | z;
		}
	}
	int64_t count = 0;
	if (n > 0)
		for (int w = 0; w < SLC_BITS_WORDS; w++) count += __builtin_popcountll((to - SLC_BITS_WORDS)[w]);
	return count;
}
