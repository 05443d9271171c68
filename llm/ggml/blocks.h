// Products of weights in blocks of 32 with vectors, without AMX.
//
// Blocks of as many rows as a register has lanes are unpacked at once, four numbers of each row beside each other, for
// up to 128 vectors. Numbers have no sign: in Q4_0, Q5_0 and Q8_0 a constant is to be subtracted from each; times the
// sum of the vector's numbers, it is subtracted from the product instead. A block is added up in whole numbers, and
// floats are touched once for it, in the order of the products on AMX (matmul.h).
#pragma once

#include "pack.h"

enum { SLC_BLOCKS = 24 }; // blocks that are unpacked at a time: with those of 16 vectors they fit the first cache

// slc_quantize_with_sums quantises a vector in blocks of 32 (Q8_1) with the whole sum of the numbers, where ggml has
// the sum in float16.
static void slc_quantize_with_sums(const float * x, void * y, int64_t n) {
    quantize_row_q8_1(x, y, n);
    for (block_q8_1 * block = (block_q8_1 *) y; n > 0; n -= QK8_1, block++) {
        int sum = 0;
        for (int i = 0; i < QK8_1; i++) {
            sum += block->qs[i];
        }
        block->s = (ggml_half) (int16_t) sum;
    }
}

// slc_numbers says how the numbers of a type are read: how large they are, what is subtracted from them, and whether a
// block has a minimum instead.
struct slc_numbers {
    int most, subtracted, has_min;
};

static inline __attribute__((always_inline)) struct slc_numbers slc_numbers_of(enum ggml_type type) {
    switch (type) {
    case GGML_TYPE_Q4_0: return (struct slc_numbers){15, 8, 0};
    case GGML_TYPE_Q4_1: return (struct slc_numbers){15, 0, 1};
    case GGML_TYPE_Q5_0: return (struct slc_numbers){31, 16, 0};
    case GGML_TYPE_Q5_1: return (struct slc_numbers){31, 0, 1};
    default: return (struct slc_numbers){128, SLC_SIGN, 0}; // Q8_0
    }
}

// slc_weights is a block of each of SLC_ROWS rows: numbers[k] has numbers 4 k to 4 k + 3.
struct slc_weights {
    slc_bytes numbers[8];
    slc_floats scale, min;
};

// slc_unpack unpacks a block of each row.
static inline __attribute__((always_inline)) void slc_unpack(enum ggml_type type, const char * rows,
                                                             struct slc_weights * to) {
    const size_t size = sizeof(slc_bytes);
    if (type == GGML_TYPE_Q8_0) {
#pragma GCC unroll 8
        for (int k = 0; k < 8; k++, rows += size) {
            to->numbers[k] = slc_of_signed(slc_load_bytes(rows));
        }
    } else {
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++, rows += size) { // numbers 0 to 15 are the lower halves of the 16 bytes
            const slc_bytes bytes = slc_load_bytes(rows);
            to->numbers[k] = slc_lower(bytes);
            to->numbers[4 + k] = slc_upper(bytes);
        }
    }
    if (slc_numbers_of(type).most == 31) {
        const slc_bytes fifth = slc_load_bytes(rows), bit = slc_ints(0x10101010);
#pragma GCC unroll 8
        for (int k = 0; k < 8; k++) {
            const slc_bytes bits = k < 4 ? slc_left(fifth, 4 - k) : slc_right(fifth, k - 4);
            to->numbers[k] = slc_or(to->numbers[k], slc_and(bits, bit));
        }
        rows += size;
    }
    to->scale = slc_load_halves(rows);
    if (slc_numbers_of(type).has_min) {
        to->min = slc_load_halves(rows + SLC_ROWS * sizeof(ggml_half));
    }
}

// slc_add_block adds the products of a block of rows and of n vectors; n and type must be constants.
static inline __attribute__((always_inline)) void slc_add_block(int n, enum ggml_type type,
                                                                const struct slc_weights * weights,
                                                                const block_q8_1 * const * vectors, int block,
                                                                slc_floats * sum) {
    const struct slc_numbers kind = slc_numbers_of(type);
    slc_bytes numbers[8];
    const slc_floats scale = weights->scale;
#pragma GCC unroll 8
    for (int k = 0; k < 8; k++) { // into registers: else gcc reads them again for each vector
        numbers[k] = weights->numbers[k];
    }
#pragma GCC unroll 16
    for (int v = 0; v < n; v++) {
        const block_q8_1 * y = vectors[v] + block;
        const int both = slc_four_bytes(y); // the scale, and the sum
        const __m128 halves = _mm_cvtph_ps(_mm_cvtsi32_si128(both));
        const slc_bytes first = slc_ints(-kind.subtracted * (both >> 16));
        const slc_floats whole = slc_to_floats(slc_dot(8, kind.most, first, numbers, y->qs));
        sum[v] = slc_add_product(sum[v], whole, slc_product(scale, slc_each(halves)));
        if (kind.has_min) {
            sum[v] = slc_add_product(sum[v], weights->min, slc_each(_mm_movehdup_ps(halves)));
        }
    }
}

// slc_add_blocks adds the products of unpacked blocks, which begin at the vectors' block `from`, to sums[vector].
static inline __attribute__((always_inline)) void slc_add_blocks(int n, enum ggml_type type, int blocks,
                                                                 const struct slc_weights * weights,
                                                                 const block_q8_1 * const * vectors, int from,
                                                                 float (*sums)[SLC_ROWS]) {
    slc_floats sum[SLC_VECTORS];
    for (int v = 0; v < n; v++) {
        sum[v] = from ? slc_load(sums[v]) : slc_zero();
    }
    for (int b = 0; b < blocks; b++) {
        slc_add_block(n, type, weights + b, vectors, from + b, sum);
    }
    for (int v = 0; v < n; v++) {
        slc_store(sums[v], sum[v]);
    }
}

// slc_multiply_few writes the products of `count` rows and n vectors to sums[vector]; n and type must be constants.
static inline __attribute__((always_inline)) void slc_multiply_few(int n, enum ggml_type type, int blocks,
                                                                   const char * rows, size_t stride, int count,
                                                                   const block_q8_1 * const * vectors,
                                                                   float (*sums)[SLC_ROWS]) {
    char buffer[SLC_LARGEST];
    slc_floats sum[SLC_VECTORS];
    for (int v = 0; v < n; v++) {
        sum[v] = slc_zero();
    }
    for (int b = 0; b < blocks; b++) {
        struct slc_weights weights;
        slc_unpack(type, slc_packed(type, rows, stride, count, b, buffer), &weights);
        slc_add_block(n, type, &weights, vectors, b, sum);
    }
    for (int v = 0; v < n; v++) {
        slc_store(sums[v], sum[v]);
    }
}

// slc_multiply_of is slc_multiply_blocks for a constant type.
static inline __attribute__((always_inline)) void slc_multiply_of(enum ggml_type type, int n, int blocks,
                                                                  const char * rows, size_t stride, int count,
                                                                  const block_q8_1 * const * vectors,
                                                                  float (*sums)[SLC_ROWS]) {
    if (n <= SLC_VECTORS) {
        SLC_IN_PARTS(slc_multiply_few, type, blocks, rows, stride, count, vectors + v);
        return;
    }
    char buffer[SLC_LARGEST];
    for (int b = 0; b < blocks; b += SLC_BLOCKS) {
        struct slc_weights weights[SLC_BLOCKS];
        const int some = MIN(SLC_BLOCKS, blocks - b);
        for (int i = 0; i < some; i++) {
            slc_unpack(type, slc_packed(type, rows, stride, count, b + i, buffer), weights + i);
        }
        SLC_IN_PARTS(slc_add_blocks, type, some, weights, vectors + v, b);
    }
}

// slc_multiply_blocks writes the products of `count` rows, at most SLC_ROWS, and n vectors, at most SLC_MANY, to
// sums[vector].
static void slc_multiply_blocks(enum ggml_type type, int n, int blocks, const char * rows, size_t stride, int count,
                                const block_q8_1 * const * vectors, float (*sums)[SLC_ROWS]) {
    switch (type) {
    case GGML_TYPE_Q4_0: slc_multiply_of(GGML_TYPE_Q4_0, n, blocks, rows, stride, count, vectors, sums); break;
    case GGML_TYPE_Q4_1: slc_multiply_of(GGML_TYPE_Q4_1, n, blocks, rows, stride, count, vectors, sums); break;
    case GGML_TYPE_Q5_0: slc_multiply_of(GGML_TYPE_Q5_0, n, blocks, rows, stride, count, vectors, sums); break;
    case GGML_TYPE_Q5_1: slc_multiply_of(GGML_TYPE_Q5_1, n, blocks, rows, stride, count, vectors, sums); break;
    default: slc_multiply_of(GGML_TYPE_Q8_0, n, blocks, rows, stride, count, vectors, sums);
    }
}
