//go:build amd64 || arm64

#define ISA scalar
#define BLOCK_R 1
#define BLOCK_V 2
#define RUN 4
#include "lanes_scalar.h"
typedef unsigned char bytes __attribute__((vector_size(16)));
typedef int unaligned_words __attribute__((vector_size(16), aligned(1)));
#define WORD(x) ((ivec){x, x, x, x})
#define WORDS(p) ((ivec) * (const unaligned_words *)(p))
#define START(p) ((ivec){0, 0, 0, 0})
#define DOT(s, x, y) add_products(s, x, y)
#define CODES(p, v) \
	do { \
		ivec words = (v); \
		for (int byte = 0; byte < W; byte++) (p)[byte] = (uint8_t)words[byte]; \
	} while (0)

// Sign-extends each byte of a word.
INLINE ivec add_products(ivec s, ivec x, ivec y) {
	s += (x << 24 >> 24) * (y << 24 >> 24);
	s += (x << 16 >> 24) * (y << 16 >> 24);
	s += (x << 8 >> 24) * (y << 8 >> 24);
	return s + (x >> 24) * (y >> 24);
}

#include "linear_i8_body.h"
