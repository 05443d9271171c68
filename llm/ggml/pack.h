// The order in which weights lie in memory for products.h.
//
// Matrices are packed when a model is loaded: a block of each of SLC_ROWS rows, then the next block of each. 16 bytes
// of each row are next to each other, in the order of registers, in the order in which they are unpacked; what is
// shorter follows row by row. So memory is read in order: read across, it would come at a third of its rate. Rows take
// as many bytes as before; the last ones, which do not fill a register, stay as they are.
#pragma once

#include "lanes.h"

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

// slc_parts says which bytes of a block follow each other when it is packed: where parts begin, those of 16 bytes
// first. `fifth` is where four bytes with the fifth bits of 32 numbers begin, `halves` how many float16 numbers the
// block begins with; Q6_K ends with one.
struct slc_parts {
    int count;
    unsigned char at[13];
    int fifth, halves, half;
};

static struct slc_parts slc_parts_of(enum ggml_type type) {
    switch (type) {
    case GGML_TYPE_Q4_0: return (struct slc_parts){1, {2}, 0, 1, 0};
    case GGML_TYPE_Q4_1: return (struct slc_parts){1, {4}, 0, 2, 0};
    case GGML_TYPE_Q5_0: return (struct slc_parts){1, {6}, 2, 1, 0};
    case GGML_TYPE_Q5_1: return (struct slc_parts){1, {8}, 4, 2, 0};
    case GGML_TYPE_Q8_0: return (struct slc_parts){2, {2, 18}, 0, 1, 0};
    case GGML_TYPE_Q4_K: return (struct slc_parts){9, {0, 16, 32, 48, 64, 80, 96, 112, 128}, 0, 0, 0};
    case GGML_TYPE_Q5_K: return (struct slc_parts){11, {0, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160}, 0, 0, 0};
    default: // Q6_K
        return (struct slc_parts){13, {192, 0, 32, 128, 16, 48, 144, 64, 96, 160, 80, 112, 176}, 0, 1, 208};
    }
}

// slc_spread puts the bit of number 4 k + j at bit k of byte j: there the four numbers of a lane have one shift.
static uint32_t slc_spread(uint32_t bits) {
    uint32_t to = 0;
    for (int j = 0; j < 4; j++) {
        uint32_t x = bits >> j & 0x11111111;
        x = (x | x >> 3) & 0x03030303;
        x = (x | x >> 6) & 0x000f000f;
        to |= ((x | x >> 12) & 0xff) << 8 * j;
    }
    return to;
}

// slc_pack_block packs a block of each of SLC_ROWS rows.
static void slc_pack_block(enum ggml_type type, const char * from, size_t stride, char * to) {
    const struct slc_parts parts = slc_parts_of(type);
    for (int c = 0; c < parts.count; c++) {
        slc_bytes columns[4];
        slc_columns(from + parts.at[c], stride, columns);
        for (int i = 0; i < 4; i++, to += sizeof(slc_bytes)) {
            slc_store_bytes(to, columns[i]);
        }
    }
    for (int r = 0; parts.fifth && r < SLC_ROWS; r++, to += 4) {
        const uint32_t bits = slc_spread((uint32_t) slc_four_bytes(from + (size_t) r * stride + parts.fifth));
        memcpy(to, &bits, sizeof bits);
    }
    for (int h = 0; h < parts.halves; h++) {
        for (int r = 0; r < SLC_ROWS; r++, to += sizeof(ggml_half)) {
            memcpy(to, from + (size_t) r * stride + parts.half + (size_t) h * sizeof(ggml_half), sizeof(ggml_half));
        }
    }
}

// slc_pack packs the rows of a matrix. A patch makes repack.cpp call it.
void slc_pack(const struct ggml_tensor * matrix, const char * from) {
    const size_t size = ggml_type_size(matrix->type), stride = matrix->nb[1];
    char * to = (char *) matrix->data;
    int64_t left = matrix->ne[1];
    for (; left >= SLC_ROWS; left -= SLC_ROWS, from += SLC_ROWS * stride) {
        for (size_t block = 0; block < stride; block += size, to += SLC_ROWS * size) {
            slc_pack_block(matrix->type, from + block, stride, to);
        }
    }
    memcpy(to, from, (size_t) left * stride);
}

enum { SLC_LARGEST = SLC_ROWS * sizeof(block_q6_K) }; // a block of each row

// slc_packed is block b of `count` rows, packed. Those that do not fill a register are packed into `buffer`.
static const char * slc_packed(enum ggml_type type, const char * rows, size_t stride, int count, int b, char * buffer) {
    const size_t size = ggml_type_size(type);
    if (count == SLC_ROWS) {
        return rows + (size_t) b * SLC_ROWS * size;
    }
    char plain[SLC_LARGEST] = {0};
    for (int r = 0; r < count; r++) {
        memcpy(plain + (size_t) r * size, rows + (size_t) r * stride + (size_t) b * size, size);
    }
    slc_pack_block(type, plain, size, buffer);
    return buffer;
}
