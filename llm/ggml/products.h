// Products of weights in Q4_1 and the K types with vectors, without AMX. The set-up puts this file into ggml's CPU
// code, and a patch makes ggml_compute_forward_mul_mat_one_chunk (ggml-cpu.c) ask it first.
//
// ggml has a dot product of one row and one vector for Q4_1, which unpacks the row's 4-bit numbers for every vector
// anew and converts four float16 scales for each 32 numbers: 72 % of the time of a model in Q4_1. Here as many rows as
// a register has lanes are unpacked at once, four numbers of each row beside each other, for up to 128 vectors; whole
// numbers are added up over a block, and floats are touched once per block, row and vector.
//
// A sum depends on its row and vector only, however many there are beside them: bits are the same alone and in a batch,
// and on both instruction sets here. They are those of the products on AMX (matmul.h), which round in the same order.
#pragma once

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)

#include <immintrin.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define SLC_PRODUCTS 1

void slc_product_ran(void); // counts (ran.h)

enum {
    SLC_VECTORS = 16, // vectors at a time: their sums stay in registers, or close by
    SLC_MANY = 128,   // the most vectors for which rows are unpacked once
    SLC_BLOCKS = 24,  // blocks that are unpacked at a time: with those of 16 vectors they fit the first cache
};

static inline int slc_four_bytes(const void * from) {
    int four;
    memcpy(&four, from, sizeof four);
    return four;
}

#if defined(__AVX512BW__) && defined(__AVX512VNNI__)

enum { SLC_ROWS = 16 };
typedef __m512  slc_floats; // a number of each row
typedef __m512i slc_bytes;  // four numbers of each row

static inline slc_floats slc_zero(void) { return _mm512_setzero_ps(); }
static inline slc_floats slc_each(__m128 x) { return _mm512_broadcastss_ps(x); }
static inline slc_floats slc_product(slc_floats a, slc_floats b) { return _mm512_mul_ps(a, b); }
static inline slc_floats slc_add_product(slc_floats sum, slc_floats a, slc_floats b) {
    return _mm512_fmadd_ps(a, b, sum);
}
static inline slc_floats slc_load(const float * from) { return _mm512_loadu_ps(from); }
static inline void slc_store(float * to, slc_floats x) { _mm512_storeu_ps(to, x); }

static inline slc_bytes slc_load_bytes(const void * from) { return _mm512_loadu_si512(from); }
static inline void slc_store_bytes(void * to, slc_bytes x) { _mm512_storeu_si512(to, x); }

// slc_load_halves is a float16 number of each row.
static inline slc_floats slc_load_halves(const void * from) { return _mm512_cvtph_ps(_mm256_loadu_si256(from)); }

// slc_row is 16 bytes of each row, rows i, 4 + i, 8 + i and 12 + i.
static inline slc_bytes slc_row(const char * p, size_t stride) {
    __m512i r = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *) p));
    r = _mm512_inserti32x4(r, _mm_loadu_si128((const __m128i *) (p + 4 * stride)), 1);
    r = _mm512_inserti32x4(r, _mm_loadu_si128((const __m128i *) (p + 8 * stride)), 2);
    return _mm512_inserti32x4(r, _mm_loadu_si128((const __m128i *) (p + 12 * stride)), 3);
}

static inline slc_bytes slc_low32(slc_bytes a, slc_bytes b) { return _mm512_unpacklo_epi32(a, b); }
static inline slc_bytes slc_high32(slc_bytes a, slc_bytes b) { return _mm512_unpackhi_epi32(a, b); }
static inline slc_bytes slc_low64(slc_bytes a, slc_bytes b) { return _mm512_unpacklo_epi64(a, b); }
static inline slc_bytes slc_high64(slc_bytes a, slc_bytes b) { return _mm512_unpackhi_epi64(a, b); }
static inline slc_bytes slc_lower(slc_bytes x) { return _mm512_and_si512(x, _mm512_set1_epi8(15)); }
static inline slc_bytes slc_upper(slc_bytes x) { return slc_lower(_mm512_srli_epi16(x, 4)); }

static inline slc_bytes slc_ints(int x) { return _mm512_set1_epi32(x); }
static inline slc_bytes slc_add(slc_bytes a, slc_bytes b) { return _mm512_add_epi32(a, b); }
static inline slc_bytes slc_times(slc_bytes a, slc_bytes b) { return _mm512_mullo_epi32(a, b); }
static inline slc_bytes slc_and(slc_bytes a, slc_bytes b) { return _mm512_and_si512(a, b); }
static inline slc_bytes slc_or(slc_bytes a, slc_bytes b) { return _mm512_or_si512(a, b); }
static inline slc_bytes slc_left(slc_bytes x, int bits) { return _mm512_slli_epi32(x, bits); }
static inline slc_bytes slc_right(slc_bytes x, int bits) { return _mm512_srli_epi32(x, bits); }
static inline slc_bytes slc_signed_right(slc_bytes x, int bits) { return _mm512_srai_epi32(x, bits); }
static inline slc_floats slc_to_floats(slc_bytes x) { return _mm512_cvtepi32_ps(x); }
static inline slc_floats slc_to_each(float x) { return _mm512_set1_ps(x); }

// slc_halves is the float16 number in the lower half of each lane.
static inline slc_floats slc_halves(slc_bytes x) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(x)); }

// slc_lanes is 32 bits of each row.
static inline slc_bytes slc_lanes(const void * from, size_t stride) {
    const __m512i number = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_i32gather_epi32(_mm512_mullo_epi32(_mm512_set1_epi32((int) stride), number), from, 1);
}

// slc_add_pairs adds the products of two numbers of 16 bits of each lane.
static inline slc_bytes slc_add_pairs(slc_bytes sum, slc_bytes a, slc_bytes b) {
    return _mm512_dpwssd_epi32(sum, a, b);
}

// slc_dot is the sums of 4 n products of each row's weights with a vector's numbers.
static inline __attribute__((always_inline)) slc_bytes slc_dot(int n, int most, const slc_bytes * weights,
                                                               const int8_t * vector) {
    (void) most;
    __m512i sum = _mm512_setzero_si512();
#pragma GCC unroll 8
    for (int k = 0; k < n; k++) {
        sum = _mm512_dpbusd_epi32(sum, weights[k], _mm512_set1_epi32(slc_four_bytes(vector + 4 * k)));
    }
    return sum;
}

#else

enum { SLC_ROWS = 8 };
typedef __m256  slc_floats;
typedef __m256i slc_bytes;

static inline slc_floats slc_zero(void) { return _mm256_setzero_ps(); }
static inline slc_floats slc_each(__m128 x) { return _mm256_broadcastss_ps(x); }
static inline slc_floats slc_product(slc_floats a, slc_floats b) { return _mm256_mul_ps(a, b); }
static inline slc_floats slc_add_product(slc_floats sum, slc_floats a, slc_floats b) {
    return _mm256_fmadd_ps(a, b, sum);
}
static inline slc_floats slc_load(const float * from) { return _mm256_loadu_ps(from); }
static inline void slc_store(float * to, slc_floats x) { _mm256_storeu_ps(to, x); }

static inline slc_bytes slc_load_bytes(const void * from) { return _mm256_loadu_si256(from); }
static inline void slc_store_bytes(void * to, slc_bytes x) { _mm256_storeu_si256(to, x); }
static inline slc_floats slc_load_halves(const void * from) { return _mm256_cvtph_ps(_mm_loadu_si128(from)); }

static inline slc_bytes slc_row(const char * p, size_t stride) {
    const __m128i second = _mm_loadu_si128((const __m128i *) (p + 4 * stride));
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *) p)), second, 1);
}

static inline slc_bytes slc_low32(slc_bytes a, slc_bytes b) { return _mm256_unpacklo_epi32(a, b); }
static inline slc_bytes slc_high32(slc_bytes a, slc_bytes b) { return _mm256_unpackhi_epi32(a, b); }
static inline slc_bytes slc_low64(slc_bytes a, slc_bytes b) { return _mm256_unpacklo_epi64(a, b); }
static inline slc_bytes slc_high64(slc_bytes a, slc_bytes b) { return _mm256_unpackhi_epi64(a, b); }
static inline slc_bytes slc_lower(slc_bytes x) { return _mm256_and_si256(x, _mm256_set1_epi8(15)); }
static inline slc_bytes slc_upper(slc_bytes x) { return slc_lower(_mm256_srli_epi16(x, 4)); }

static inline slc_bytes slc_ints(int x) { return _mm256_set1_epi32(x); }
static inline slc_bytes slc_add(slc_bytes a, slc_bytes b) { return _mm256_add_epi32(a, b); }
static inline slc_bytes slc_times(slc_bytes a, slc_bytes b) { return _mm256_mullo_epi32(a, b); }
static inline slc_bytes slc_and(slc_bytes a, slc_bytes b) { return _mm256_and_si256(a, b); }
static inline slc_bytes slc_or(slc_bytes a, slc_bytes b) { return _mm256_or_si256(a, b); }
static inline slc_bytes slc_left(slc_bytes x, int bits) { return _mm256_slli_epi32(x, bits); }
static inline slc_bytes slc_right(slc_bytes x, int bits) { return _mm256_srli_epi32(x, bits); }
static inline slc_bytes slc_signed_right(slc_bytes x, int bits) { return _mm256_srai_epi32(x, bits); }
static inline slc_floats slc_to_floats(slc_bytes x) { return _mm256_cvtepi32_ps(x); }
static inline slc_floats slc_to_each(float x) { return _mm256_set1_ps(x); }

static inline slc_floats slc_halves(slc_bytes x) {
    const __m256i low = _mm256_and_si256(x, _mm256_set1_epi32(0xffff));
    return _mm256_cvtph_ps(_mm256_castsi256_si128(_mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0xd8)));
}

static inline slc_bytes slc_lanes(const void * from, size_t stride) {
    const __m256i number = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_i32gather_epi32(from, _mm256_mullo_epi32(_mm256_set1_epi32((int) stride), number), 1);
}

static inline slc_bytes slc_add_pairs(slc_bytes sum, slc_bytes a, slc_bytes b) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
}

// Sums of 16 bits hold the products of as many weights of at most `most` with numbers of at most 127 as fit.
static inline __attribute__((always_inline)) slc_bytes slc_dot(int n, int most, const slc_bytes * weights,
                                                               const int8_t * vector) {
    const int fit = most <= 15 ? 8 : most <= 31 ? 4 : 2;
    __m256i sum = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (int k = 0; k < n; k += fit) {
        __m256i part = _mm256_setzero_si256();
#pragma GCC unroll 8
        for (int i = k; i < k + fit && i < n; i++) {
            part = _mm256_add_epi16(part, _mm256_maddubs_epi16(weights[i], slc_ints(slc_four_bytes(vector + 4 * i))));
        }
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(part, _mm256_set1_epi16(1)));
    }
    return sum;
}

#endif

// slc_columns brings 16 bytes of each row into lanes: to[i] has bytes 4 i to 4 i + 3.
static inline __attribute__((always_inline)) void slc_columns(const char * p, size_t stride, slc_bytes to[4]) {
    const slc_bytes r0 = slc_row(p, stride), r1 = slc_row(p + stride, stride);
    const slc_bytes r2 = slc_row(p + 2 * stride, stride), r3 = slc_row(p + 3 * stride, stride);
    const slc_bytes low01 = slc_low32(r0, r1), high01 = slc_high32(r0, r1);
    const slc_bytes low23 = slc_low32(r2, r3), high23 = slc_high32(r2, r3);
    to[0] = slc_low64(low01, low23);
    to[1] = slc_high64(low01, low23);
    to[2] = slc_low64(high01, high23);
    to[3] = slc_high64(high01, high23);
}

// slc_weights is a block of each of SLC_ROWS rows: numbers[k] has numbers 4 k to 4 k + 3.
struct slc_weights {
    slc_bytes numbers[8];
    slc_floats scale, min;
};

// slc_unpack brings a block of each row into lanes.
static inline __attribute__((always_inline)) void slc_unpack(const char * rows, size_t stride,
                                                             struct slc_weights * to) {
    slc_bytes bytes[4];
    slc_columns(rows + offsetof(block_q4_1, qs), stride, bytes);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) { // numbers 0 to 15 are the lower halves of the 16 bytes
        to->numbers[i] = slc_lower(bytes[i]);
        to->numbers[4 + i] = slc_upper(bytes[i]);
    }
    const slc_bytes halves = slc_lanes(rows, stride);
    to->scale = slc_halves(halves);
    to->min = slc_halves(slc_right(halves, 16));
}

// slc_add_block adds the products of a block of rows and of n vectors; n must be a constant.
static inline __attribute__((always_inline)) void slc_add_block(int n, const struct slc_weights * weights,
                                                                const block_q8_1 * const * vectors, int block,
                                                                slc_floats * sum) {
    slc_bytes numbers[8];
    const slc_floats scale = weights->scale, min = weights->min;
#pragma GCC unroll 8
    for (int k = 0; k < 8; k++) { // into registers: else gcc reads them again for each vector
        numbers[k] = weights->numbers[k];
    }
#pragma GCC unroll 16
    for (int v = 0; v < n; v++) {
        const block_q8_1 * y = vectors[v] + block;
        const __m128 halves = _mm_cvtph_ps(_mm_cvtsi32_si128(slc_four_bytes(y))); // of the block, and of its sum
        const slc_floats whole = slc_to_floats(slc_dot(8, 15, numbers, y->qs));
        sum[v] = slc_add_product(sum[v], whole, slc_product(scale, slc_each(halves)));
        sum[v] = slc_add_product(sum[v], min, slc_each(_mm_movehdup_ps(halves)));
    }
}

// slc_multiply_few writes the products of SLC_ROWS rows and n vectors to sums[vector]; n must be a constant.
static inline __attribute__((always_inline)) void slc_multiply_few(int n, int blocks, const char * rows, size_t stride,
                                                                   const block_q8_1 * const * vectors,
                                                                   float (*sums)[SLC_ROWS]) {
    slc_floats sum[SLC_VECTORS];
    for (int v = 0; v < n; v++) {
        sum[v] = slc_zero();
    }
    // Up to eight vectors wait for weights: the rows lie beside each other, but are read across, so that the processor
    // does not see what comes. These are the rows after the next ones; reading ahead of the matrix's end does no harm.
    const size_t line = 64, bytes = SLC_ROWS * sizeof(block_q4_1);
    const char * ahead = rows + 2 * SLC_ROWS * stride;
    for (int b = 0; b < blocks; b++, rows += sizeof(block_q4_1), ahead += bytes) {
        for (size_t at = 0; n <= 8 && at < bytes; at += line) {
            _mm_prefetch(ahead + at, _MM_HINT_T0);
        }
        struct slc_weights weights;
        slc_unpack(rows, stride, &weights);
        slc_add_block(n, &weights, vectors, b, sum);
    }
    for (int v = 0; v < n; v++) {
        slc_store(sums[v], sum[v]);
    }
}

// slc_add_blocks adds the products of unpacked blocks, which begin at the vectors' block `from`, to sums[vector].
static inline __attribute__((always_inline)) void slc_add_blocks(int n, int blocks, const struct slc_weights * weights,
                                                                 const block_q8_1 * const * vectors, int from,
                                                                 float (*sums)[SLC_ROWS]) {
    slc_floats sum[SLC_VECTORS];
    for (int v = 0; v < n; v++) {
        sum[v] = from ? slc_load(sums[v]) : slc_zero();
    }
    for (int b = 0; b < blocks; b++) {
        slc_add_block(n, weights + b, vectors, from + b, sum);
    }
    for (int v = 0; v < n; v++) {
        slc_store(sums[v], sum[v]);
    }
}

// SLC_IN_PARTS splits the n vectors into parts of constant size and calls f for each, with where its sums go last. The
// other arguments may use v, the first vector of the part.
#define SLC_IN_PARTS(f, ...)                                                                                           \
    do {                                                                                                               \
        int v = 0;                                                                                                     \
        for (; n - v >= SLC_VECTORS; v += SLC_VECTORS) {                                                               \
            f(SLC_VECTORS, __VA_ARGS__, sums + v);                                                                     \
        }                                                                                                              \
        if (n - v >= 8) {                                                                                              \
            f(8, __VA_ARGS__, sums + v);                                                                               \
            v += 8;                                                                                                    \
        }                                                                                                              \
        if (n - v >= 4) {                                                                                              \
            f(4, __VA_ARGS__, sums + v);                                                                               \
            v += 4;                                                                                                    \
        }                                                                                                              \
        if (n - v >= 2) {                                                                                              \
            f(2, __VA_ARGS__, sums + v);                                                                               \
            v += 2;                                                                                                    \
        }                                                                                                              \
        if (n > v) {                                                                                                   \
            f(1, __VA_ARGS__, sums + v);                                                                               \
        }                                                                                                              \
    } while (0)

// slc_multiply writes the products of SLC_ROWS rows of Q4_1 and n vectors, at most SLC_MANY, to sums[vector].
static void slc_multiply(int n, int blocks, const char * rows, size_t stride, const block_q8_1 * const * vectors,
                         float (*sums)[SLC_ROWS]) {
    if (n <= SLC_VECTORS) {
        SLC_IN_PARTS(slc_multiply_few, blocks, rows, stride, vectors + v);
        return;
    }
    for (int b = 0; b < blocks; b += SLC_BLOCKS) {
        struct slc_weights weights[SLC_BLOCKS];
        const int count = MIN(SLC_BLOCKS, blocks - b);
        for (int i = 0; i < count; i++) {
            slc_unpack(rows + (size_t) (b + i) * sizeof(block_q4_1), stride, weights + i);
        }
        SLC_IN_PARTS(slc_add_blocks, count, weights, vectors + v, b);
    }
}

#include "groups.h"

// slc_products writes the products of rows first to last - 1 of a matrix of `all` rows, of Q4_1 at least SLC_ROWS, and
// of n vectors, at most SLC_MANY, to out[vector][row]. first is a multiple of SLC_ROWS.
static void slc_products(enum ggml_type type, int blocks, const char * matrix, size_t stride, int64_t first,
                         int64_t last, int64_t all, int n, const void * const * vectors, float * const * out) {
    float sums[SLC_MANY][SLC_ROWS] __attribute__((aligned(64)));
    for (; first < last; first += SLC_ROWS) {
        const int64_t count = MIN(SLC_ROWS, all - first);
        int64_t skipped = 0;
        if (type == GGML_TYPE_Q4_1) {
            skipped = SLC_ROWS - count; // the last ones are computed with some before: nothing behind is read
            slc_multiply(n, blocks, matrix + (size_t) (first - skipped) * stride, stride,
                         (const block_q8_1 * const *) vectors, sums);
        } else {
            slc_multiply_groups(type, n, blocks, matrix + (size_t) first * stride, stride, (int) count,
                                (const block_q8_K * const *) vectors, sums);
        }
        for (int v = 0; v < n; v++) {
            if (count == SLC_ROWS) {
                slc_store(out[v] + first, slc_load(sums[v]));
            } else {
                memcpy(out[v] + first, sums[v] + skipped, (size_t) count * sizeof(float));
            }
        }
    }
}

// slc_is_off tells that SLUICE_MATMUL=ggml leaves all to ggml, to compare.
static bool slc_is_off(void) {
    static atomic_int choice; // 0: not looked at yet
    if (atomic_load_explicit(&choice, memory_order_relaxed) == 0) {
        const char * s = getenv("SLUICE_MATMUL");
        atomic_store_explicit(&choice, s && strcmp(s, "ggml") == 0 ? 1 : 2, memory_order_relaxed);
    }
    return atomic_load_explicit(&choice, memory_order_relaxed) == 1;
}

// slc_packs tells whether a matrix is packed when it is loaded. A patch makes repack.cpp ask, and call slc_pack.
bool slc_packs(const struct ggml_tensor * weights) {
    const bool known = weights->type == GGML_TYPE_Q4_K || weights->type == GGML_TYPE_Q5_K ||
                       weights->type == GGML_TYPE_Q6_K;
    return known && weights->ne[2] * weights->ne[3] == 1 && !slc_is_off();
}

// slc_has_products tells whether a product is computed here, whatever the number of vectors, because what decides must
// not depend on the batch: with one matrix of Q4_1, or one that is packed, which is what tensors have an extra for.
static bool slc_has_products(const struct ggml_tensor * dst) {
    const struct ggml_tensor *weights = dst->src[0], *in = dst->src[1];
    if (weights->type == GGML_TYPE_Q4_1) {
        return in->type == GGML_TYPE_F32 && weights->ne[1] >= SLC_ROWS && weights->ne[2] * weights->ne[3] == 1 &&
               !slc_is_off();
    }
    return in->type == GGML_TYPE_F32 && weights->extra && slc_packs(weights);
}

// slc_from_float is how a product's vectors are quantised: ggml's way, or with what its kernel needs beside.
static ggml_from_float_t slc_from_float(const struct ggml_tensor * dst, ggml_from_float_t ggmls) {
    const enum ggml_type type = dst->src[0]->type;
    if (!slc_has_products(dst) || type == GGML_TYPE_Q4_1) {
        return ggmls;
    }
    return type == GGML_TYPE_Q6_K ? slc_quantize_of_16 : slc_quantize_of_32;
}

// slc_product_shape chooses how many rows and vectors ggml gives to a thread at a time. Its own choice is 16 of each,
// with which unpacking the rows takes a quarter of the time. Both are fewer where threads would go without work. With a
// few vectors there are more rows, because what is fetched early must be for the same thread.
static void slc_product_shape(const struct ggml_tensor * dst, int threads, int64_t * rows, int64_t * vectors) {
    const int64_t all = dst->ne[1] * dst->ne[2] * dst->ne[3];
    if (!slc_has_products(dst)) {
        return;
    }
    if (all <= SLC_VECTORS) {
        *vectors = all;
        *rows = (dst->ne[0] / (4 * threads) + SLC_ROWS - 1) / SLC_ROWS * SLC_ROWS;
        *rows = MAX(*rows, 4 * SLC_ROWS);
        return;
    }
    const int64_t groups = (dst->ne[0] + SLC_ROWS - 1) / SLC_ROWS, most = (all + SLC_VECTORS - 1) / SLC_VECTORS;
    const int64_t enough = (4 * threads + groups - 1) / groups;
    const int64_t parts = MIN(most, MAX(enough, (all + SLC_MANY - 1) / SLC_MANY));
    *vectors = ((all + parts - 1) / parts + SLC_VECTORS - 1) / SLC_VECTORS * SLC_VECTORS;
    *rows = SLC_ROWS * MAX(1, MIN(4, groups * parts / (16 * threads)));
}

// slc_product_chunk is ggml_compute_forward_mul_mat_one_chunk for rows row to row_end - 1 of the weights and vectors
// vector to vector_end - 1, which are quantised and packed; or it returns false and leaves them to ggml.
static bool slc_product_chunk(struct ggml_tensor * dst, const char * vectors, int64_t row, int64_t row_end,
                              int64_t vector, int64_t vector_end) {
    if (!slc_has_products(dst)) {
        return false;
    }
    const struct ggml_tensor * weights = dst->src[0];
    const enum ggml_type type = weights->type == GGML_TYPE_Q4_1 ? GGML_TYPE_Q8_1 : GGML_TYPE_Q8_K;
    const size_t size = ggml_row_size(type, weights->ne[0]); // of a vector
    slc_product_ran();
    for (; vector < vector_end; vector += SLC_MANY) {
        const void * from[SLC_MANY];
        float * to[SLC_MANY];
        const int n = (int) MIN(SLC_MANY, vector_end - vector);
        for (int v = 0; v < n; v++) {
            const int64_t at = vector + v, plane = at / dst->ne[1];
            from[v] = vectors + (size_t) at * size;
            to[v] = (float *) ((char *) dst->data + at % dst->ne[1] * dst->nb[1] +
                               plane % dst->ne[2] * dst->nb[2] + plane / dst->ne[2] * dst->nb[3]);
        }
        slc_products(weights->type, (int) (weights->ne[0] / ggml_blck_size(type)), weights->data, weights->nb[1], row,
                     row_end, weights->ne[1], n, from, to);
    }
    return true;
}

#endif
