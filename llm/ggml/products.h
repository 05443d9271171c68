// Products of weights in blocks of 32 and of the K types with vectors, without AMX. The set-up puts this file into
// ggml's CPU code, and a patch makes ggml_compute_forward_mul_mat_one_chunk (ggml-cpu.c) ask it first.
//
// ggml has a dot product of one row and one vector, which unpacks the row's numbers for every vector anew and converts
// two to four float16 scales for each 32 numbers. Here rows are packed (pack.h), as many as a register has lanes are
// unpacked at once, for up to 128 vectors, and whole numbers are added up over a block (blocks.h, groups.h).
//
// A sum depends on its row and vector only, however many there are beside them: bits are the same alone and in a batch,
// and on both instruction sets here. They are those of the products on AMX (matmul.h), which round in the same order.
#pragma once

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#define SLC_PRODUCTS 1

#include "blocks.h"
#include "groups.h"

enum { SLC_CHUNK = 128 << 10 }; // bytes of weights that a thread reads in order at least, for a few vectors

void slc_product_ran(void); // counts (ran.h)

// slc_vectors is the type in which the vectors of a type of weights are quantised; GGML_TYPE_COUNT where there are no
// products here.
static enum ggml_type slc_vectors(enum ggml_type weights) {
    switch (weights) {
    case GGML_TYPE_Q4_0:
    case GGML_TYPE_Q4_1:
    case GGML_TYPE_Q5_0:
    case GGML_TYPE_Q5_1:
    case GGML_TYPE_Q8_0: return GGML_TYPE_Q8_1;
    case GGML_TYPE_Q4_K:
    case GGML_TYPE_Q5_K:
    case GGML_TYPE_Q6_K: return GGML_TYPE_Q8_K;
    default: return GGML_TYPE_COUNT;
    }
}

// slc_products writes the products of rows first to last - 1 of a matrix of `all` rows and of n vectors, at most
// SLC_MANY, to out[vector][row]. first is a multiple of SLC_ROWS.
static void slc_products(enum ggml_type type, int blocks, const char * matrix, size_t stride, int64_t first,
                         int64_t last, int64_t all, int n, const void * const * vectors, float * const * out) {
    float sums[SLC_MANY][SLC_ROWS] __attribute__((aligned(64)));
    for (; first < last; first += SLC_ROWS) {
        const int count = (int) MIN(SLC_ROWS, all - first);
        const char * rows = matrix + (size_t) first * stride;
        if (slc_vectors(type) == GGML_TYPE_Q8_1) {
            slc_multiply_blocks(type, n, blocks, rows, stride, count, (const block_q8_1 * const *) vectors, sums);
        } else {
            slc_multiply_groups(type, n, blocks, rows, stride, count, (const block_q8_K * const *) vectors, sums);
        }
        for (int v = 0; v < n; v++) {
            if (count == SLC_ROWS) {
                slc_store(out[v] + first, slc_load(sums[v]));
            } else {
                memcpy(out[v] + first, sums[v], (size_t) count * sizeof(float));
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
    return slc_vectors(weights->type) != GGML_TYPE_COUNT && weights->ne[2] * weights->ne[3] == 1 && !slc_is_off();
}

// slc_has_products tells whether a product is computed here, whatever the number of vectors, because what decides must
// not depend on the batch: with a matrix that is packed, which is what tensors have an extra for.
static bool slc_has_products(const struct ggml_tensor * dst) {
    return dst->src[1]->type == GGML_TYPE_F32 && dst->src[0]->extra && slc_packs(dst->src[0]);
}

// slc_vector_type is the type in which a product's vectors are quantised, ggml's or ours.
static enum ggml_type slc_vector_type(const struct ggml_tensor * dst, enum ggml_type ggmls) {
    return slc_has_products(dst) ? slc_vectors(dst->src[0]->type) : ggmls;
}

// slc_from_float is how they are quantised: ggml's way, or with what the kernel needs beside.
static ggml_from_float_t slc_from_float(const struct ggml_tensor * dst, ggml_from_float_t ggmls) {
    if (!slc_has_products(dst)) {
        return ggmls;
    }
    switch (dst->src[0]->type) {
    case GGML_TYPE_Q4_1:
    case GGML_TYPE_Q5_1: return ggmls;
    case GGML_TYPE_Q4_K:
    case GGML_TYPE_Q5_K: return slc_quantize_of_32;
    case GGML_TYPE_Q6_K: return slc_quantize_of_16;
    default: return slc_quantize_with_sums;
    }
}

// slc_product_shape chooses how many rows and vectors ggml gives to a thread at a time. Its own choice is 16 of each,
// with which unpacking the rows takes a quarter of the time. Both are fewer where threads would go without work. With a
// few vectors a thread waits for memory, and begins to read anew with each chunk: a small matrix has one a thread.
static void slc_product_shape(const struct ggml_tensor * dst, int threads, int64_t * rows, int64_t * vectors) {
    const int64_t all = dst->ne[1] * dst->ne[2] * dst->ne[3];
    if (!slc_has_products(dst)) {
        return;
    }
    if (all <= SLC_VECTORS) {
        *vectors = all;
        const int64_t least = SLC_CHUNK / (int64_t) dst->src[0]->nb[1];
        *rows = MAX(dst->ne[0] / (4 * threads), MIN(dst->ne[0] / threads, least));
        *rows = (MAX(1, *rows) + SLC_ROWS - 1) / SLC_ROWS * SLC_ROWS;
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
    const enum ggml_type type = slc_vectors(weights->type);
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
