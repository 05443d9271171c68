// Products of K types' weights with vectors, without AMX.
//
// Blocks of 256 weights have groups of 16 or 32 with a scale in whole numbers each. A block is added up in
// whole numbers, and floats are touched once for it, in the order of the products on AMX (matmul.h).
#pragma once

#include "pack.h"
#include "quantize.h"

// slc_quantize_of_16 quantises a vector in blocks of 256 with the sums of each 16 numbers.
static void slc_quantize_of_16(const float * x, void * y, int64_t n) {
#ifdef SLC_QUANTIZE
    slc_quantize_q8_K(x, (block_q8_K *) y, n);
#else
    quantize_row_q8_K(x, y, n);
#endif
}

// slc_quantize_of_32 does so with the sums of each 32 numbers, in the first half of the sums.
static void slc_quantize_of_32(const float * x, void * y, int64_t n) {
    slc_quantize_of_16(x, y, n);
    for (block_q8_K * block = (block_q8_K *) y; n > 0; n -= QK_K, block++) {
        for (int i = 0; i < QK_K / 32; i++) {
            block->bsums[i] = (int16_t) (block->bsums[2 * i] + block->bsums[2 * i + 1]);
        }
    }
}

// slc_next reads the next 16 bytes of each row.
static inline __attribute__((always_inline)) void slc_next(const char ** rows, slc_bytes to[4]) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++, *rows += sizeof(slc_bytes)) {
        to[i] = slc_load_bytes(*rows);
    }
}

// slc_block is a block of 256 of each of SLC_ROWS rows.
struct slc_block {
    slc_bytes numbers[64]; // [k] has numbers 4 k to 4 k + 3, without a sign
    slc_bytes scales[16];  // of each group, 32 bits
    slc_bytes mins[8];     // of two groups each, 16 bits: they go with two sums of a vector's numbers
    slc_floats scale, min; // of all scales; of all mins, but for Q6_K, whose mins have the scale of the scales
};

// slc_kind says how a type is read: how large its numbers are, how many a group has, and whether it has minima.
struct slc_kind {
    int most, group, has_mins;
};

static inline __attribute__((always_inline)) struct slc_kind slc_kind_of(enum ggml_type type) {
    switch (type) {
    case GGML_TYPE_Q4_K: return (struct slc_kind){15, 32, 1};
    case GGML_TYPE_Q5_K: return (struct slc_kind){31, 32, 1};
    default: return (struct slc_kind){63, 16, 0}; // Q6_K
    }
}

// slc_few has up to eight vectors. Weights are multiplied with them as they are unpacked, because storing the weights
// would take longer than the products. With no vectors, the weights are stored in slc_block, for more vectors.
struct slc_few {
    int n; // a constant
    const block_q8_K * const * vectors;
    int block;
    slc_bytes sums[8];
};

// slc_take multiplies numbers 16 i to 16 i + 15 of the rows' blocks with the few vectors, or stores them if there are
// none.
static inline __attribute__((always_inline)) void slc_take(int i, const slc_bytes numbers[4], struct slc_kind kind,
                                                           struct slc_block * to, struct slc_few * few) {
#pragma GCC unroll 4
    for (int k = 0; few->n == 0 && k < 4; k++) {
        to->numbers[4 * i + k] = numbers[k];
    }
#pragma GCC unroll 8
    for (int v = 0; v < few->n; v++) {
        const int8_t * y = few->vectors[v][few->block].qs + 16 * i;
        const slc_bytes dot = slc_dot(4, kind.most, slc_ints(0), numbers, y);
        few->sums[v] = slc_add(few->sums[v], slc_times(dot, to->scales[16 * i / kind.group]));
    }
}

// slc_byte is byte i of each lane.
static inline slc_bytes slc_byte(slc_bytes x, int i) { return slc_and(slc_right(x, 8 * i), slc_ints(0xff)); }

// slc_unpack_scales reads what blocks of Q4_K and Q5_K begin with: two float16 numbers, then eight scales and eight
// minima of 6 bits, of which the last four of both have their upper two bits above those of the first four.
static inline __attribute__((always_inline)) void slc_unpack_scales(const char ** rows, struct slc_block * to) {
    slc_bytes b[4];
    slc_next(rows, b);
    to->scale = slc_halves(b[0]);
    to->min = slc_halves(slc_right(b[0], 16));
    const slc_bytes six = slc_ints(0x3f3f3f3f), four = slc_ints(0x0f0f0f0f), two = slc_ints(0x30303030);
    const slc_bytes scales[2] = {slc_and(b[1], six), slc_or(slc_and(b[3], four), slc_and(slc_right(b[1], 2), two))};
    const slc_bytes mins[2] = {slc_and(b[2], six),
                               slc_or(slc_and(slc_right(b[3], 4), four), slc_and(slc_right(b[2], 2), two))};
#pragma GCC unroll 8
    for (int g = 0; g < 8; g++) {
        to->scales[g] = slc_byte(scales[g / 4], g % 4);
    }
#pragma GCC unroll 4
    for (int g = 0; g < 4; g++) { // two beside each other
        const slc_bytes m = slc_right(mins[g / 2], g % 2 * 16);
        to->mins[g] = slc_or(slc_and(m, slc_ints(0xff)), slc_and(slc_left(m, 8), slc_ints(0xff0000)));
    }
}

static inline __attribute__((always_inline)) void slc_unpack_q4_K(const char * rows, struct slc_kind kind,
                                                                  struct slc_block * to, struct slc_few * few) {
    slc_unpack_scales(&rows, to);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) { // lower halves of 16 bytes are numbers of one group, upper halves of the next
        slc_bytes b[4], low[4], high[4];
        slc_next(&rows, b);
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            low[k] = slc_lower(b[k]);
            high[k] = slc_upper(b[k]);
        }
        slc_take(i / 2 * 4 + i % 2, low, kind, to, few);
        slc_take(i / 2 * 4 + i % 2 + 2, high, kind, to, few);
    }
}

static inline __attribute__((always_inline)) void slc_unpack_q5_K(const char * rows, struct slc_kind kind,
                                                                  struct slc_block * to, struct slc_few * few) {
    slc_unpack_scales(&rows, to);
    slc_bytes fifth[8]; // bit g of a byte belongs to group g
    slc_next(&rows, fifth);
    slc_next(&rows, fifth + 4);
    const slc_bytes bit = slc_ints(0x10101010);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        slc_bytes b[4], low[4], high[4];
        slc_next(&rows, b);
        const int g = i / 2 * 2;
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            const slc_bytes bits = fifth[i % 2 * 4 + k];
            const slc_bytes one = g < 4 ? slc_left(bits, 4 - g) : slc_right(bits, g - 4);
            const slc_bytes other = g < 3 ? slc_left(bits, 3 - g) : slc_right(bits, g - 3);
            low[k] = slc_or(slc_lower(b[k]), slc_and(one, bit));
            high[k] = slc_or(slc_upper(b[k]), slc_and(other, bit));
        }
        slc_take(i / 2 * 4 + i % 2, low, kind, to, few);
        slc_take(i / 2 * 4 + i % 2 + 2, high, kind, to, few);
    }
}

static inline __attribute__((always_inline)) void slc_unpack_q6_K(const char * rows, struct slc_kind kind,
                                                                  struct slc_block * to, struct slc_few * few) {
    slc_bytes scales[4];
    slc_next(&rows, scales);
    const slc_bytes offset = slc_ints(-32); // numbers are 32 too large
#pragma GCC unroll 8
    for (int g = 0; g < 8; g++) {
        const slc_bytes one = slc_signed_right(slc_left(scales[g / 2], g % 2 ? 8 : 24), 24);
        const slc_bytes other = slc_signed_right(slc_left(scales[g / 2], g % 2 ? 0 : 16), 24);
        to->scales[2 * g] = one;
        to->scales[2 * g + 1] = other;
        to->mins[g] = slc_or(slc_and(slc_times(one, offset), slc_ints(0xffff)), slc_left(slc_times(other, offset), 16));
    }
    const slc_bytes two = slc_ints(0x30303030);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) { // 16 bytes have the upper bits of numbers that are 32 apart
        slc_bytes first[4], second[4], upper[4], numbers[4][4];
        slc_next(&rows, first);
        slc_next(&rows, second);
        slc_next(&rows, upper);
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            numbers[0][k] = slc_or(slc_lower(first[k]), slc_and(slc_left(upper[k], 4), two));
            numbers[1][k] = slc_or(slc_lower(second[k]), slc_and(slc_left(upper[k], 2), two));
            numbers[2][k] = slc_or(slc_upper(first[k]), slc_and(upper[k], two));
            numbers[3][k] = slc_or(slc_upper(second[k]), slc_and(slc_right(upper[k], 2), two));
        }
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            slc_take(i / 2 * 8 + i % 2 + 2 * j, numbers[j], kind, to, few);
        }
    }
    to->scale = slc_load_halves(rows);
}

// slc_add_whole scales a block's products, which are whole numbers, adds the minima, and adds both to a vector's sums.
static inline __attribute__((always_inline)) void slc_add_whole(slc_bytes sum, const struct slc_block * weights,
                                                                struct slc_kind kind, const block_q8_K * y, int block,
                                                                float * sums) {
    slc_bytes mins = kind.has_mins ? slc_ints(0) : sum;
#pragma GCC unroll 8
    for (int g = 0; g < 128 / kind.group; g++) {
        mins = slc_add_pairs(mins, slc_ints(slc_four_bytes(y->bsums + 2 * g)), weights->mins[g]);
    }
    slc_floats all = block ? slc_load(sums) : slc_zero();
    const slc_floats scale = slc_product(slc_to_each(y->d), weights->scale);
    if (kind.has_mins) {
        all = slc_add_product(all, slc_to_floats(sum), scale);
        all = slc_add_product(all, slc_to_floats(mins), slc_product(slc_to_each(-y->d), weights->min));
    } else {
        all = slc_add_product(all, slc_to_floats(mins), scale);
    }
    slc_store(sums, all);
}

// slc_add_group_products adds the products of a block of rows and of n vectors; n must be a constant.
static inline __attribute__((always_inline)) void slc_add_group_products(int n, const struct slc_block * weights,
                                                                         struct slc_kind kind,
                                                                         const block_q8_K * const * vectors, int block,
                                                                         float (*sums)[SLC_ROWS]) {
    slc_bytes sum[SLC_VECTORS];
    for (int v = 0; v < n; v++) {
        sum[v] = slc_ints(0);
    }
    for (int g = 0; g < 8; g++) {
        slc_bytes numbers[8];
#pragma GCC unroll 8
        for (int k = 0; k < 8; k++) {
            numbers[k] = weights->numbers[8 * g + k];
        }
#pragma GCC unroll 16
        for (int v = 0; v < n; v++) {
            const int8_t * y = vectors[v][block].qs + 32 * g;
            if (kind.group == 32) {
                const slc_bytes all = slc_dot(8, kind.most, slc_ints(0), numbers, y);
                sum[v] = slc_add(sum[v], slc_times(all, weights->scales[g]));
            } else {
                const slc_bytes first = slc_dot(4, kind.most, slc_ints(0), numbers, y);
                const slc_bytes second = slc_dot(4, kind.most, slc_ints(0), numbers + 4, y + 16);
                sum[v] = slc_add(sum[v], slc_times(first, weights->scales[2 * g]));
                sum[v] = slc_add(sum[v], slc_times(second, weights->scales[2 * g + 1]));
            }
        }
    }
    for (int v = 0; v < n; v++) {
        slc_add_whole(sum[v], weights, kind, vectors[v] + block, block, sums[v]);
    }
}

static inline __attribute__((always_inline)) void slc_unpack_groups(enum ggml_type type, const char * rows,
                                                                    struct slc_block * to, struct slc_few * few) {
    switch (type) {
    case GGML_TYPE_Q4_K: slc_unpack_q4_K(rows, slc_kind_of(type), to, few); break;
    case GGML_TYPE_Q5_K: slc_unpack_q5_K(rows, slc_kind_of(type), to, few); break;
    default: slc_unpack_q6_K(rows, slc_kind_of(type), to, few);
    }
}

// slc_multiply_few_groups writes the products of `count` rows and n vectors to sums[vector]; n and type must be
// constants.
static inline __attribute__((always_inline)) void slc_multiply_few_groups(int n, enum ggml_type type, int blocks,
                                                                          const char * rows, size_t stride, int count,
                                                                          const block_q8_K * const * vectors,
                                                                          float (*sums)[SLC_ROWS]) {
    char buffer[SLC_LARGEST];
    for (int b = 0; b < blocks; b++) {
        struct slc_block weights;
        struct slc_few few = {n, vectors, b};
        slc_unpack_groups(type, slc_packed(type, rows, stride, count, b, buffer), &weights, &few);
        for (int v = 0; v < n; v++) {
            slc_add_whole(few.sums[v], &weights, slc_kind_of(type), vectors[v] + b, b, sums[v]);
        }
    }
}

// slc_multiply_groups_of is slc_multiply_groups for a constant type.
static inline __attribute__((always_inline)) void slc_multiply_groups_of(enum ggml_type type, int n, int blocks,
                                                                         const char * rows, size_t stride, int count,
                                                                         const block_q8_K * const * vectors,
                                                                         float (*sums)[SLC_ROWS]) {
    if (n <= 8) {
        SLC_IN_PARTS(slc_multiply_few_groups, type, blocks, rows, stride, count, vectors + v);
        return;
    }
    char buffer[SLC_LARGEST];
    for (int b = 0; b < blocks; b++) {
        struct slc_block weights;
        struct slc_few none = {0};
        slc_unpack_groups(type, slc_packed(type, rows, stride, count, b, buffer), &weights, &none);
        SLC_IN_PARTS(slc_add_group_products, &weights, slc_kind_of(type), vectors + v, b);
    }
}

// slc_multiply_groups writes the products of `count` rows, at most SLC_ROWS, and n vectors, at most SLC_MANY, to
// sums[vector].
static void slc_multiply_groups(enum ggml_type type, int n, int blocks, const char * rows, size_t stride, int count,
                                const block_q8_K * const * vectors, float (*sums)[SLC_ROWS]) {
    switch (type) {
    case GGML_TYPE_Q4_K: slc_multiply_groups_of(GGML_TYPE_Q4_K, n, blocks, rows, stride, count, vectors, sums); break;
    case GGML_TYPE_Q5_K: slc_multiply_groups_of(GGML_TYPE_Q5_K, n, blocks, rows, stride, count, vectors, sums); break;
    default: slc_multiply_groups_of(GGML_TYPE_Q6_K, n, blocks, rows, stride, count, vectors, sums);
    }
}
