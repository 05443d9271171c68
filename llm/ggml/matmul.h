// Products of quantised weights with several rows on AMX. The set-up puts this file into ggml's AMX code, whose layout
// the weights have, and a patch makes ggml_backend_amx_mul_mat (amx/mmq.cpp) ask it first.
//
// ggml scales every product of 32 numbers by itself: it converts each row's float16 scale anew for each 16 columns, and
// keeps sums in memory. Here scales are converted once, and kept beside the rows; sums stay in registers over 128
// numbers. Weights whose groups have whole-number scales (the K types, IQ4_XS) are multiplied by these first, as two
// bytes each, so that AMX itself adds up all 256 numbers of a block, and floats are only touched once for these. All
// roundings are those of ggml's code for one row and happen in its order: bits are the same alone and in a batch.
#pragma once

#include "ran.h"

#include <cstdlib>
#include <cstring>

namespace slc {
namespace {

constexpr int kTile = 16;      // rows of a tile, and columns
constexpr int kPanel = 32;     // columns of weights that are unpacked at a time
constexpr int kMaxRows = 256;  // for which these are then used
constexpr int kSteps = 4;      // products of tiles in a chunk: what is summed before floats are touched

// configure says what the tiles are: 0 to 3 sums of 16 columns, 4 rows of so many bytes each, 5 to 7 weights, four
// numbers of 16 columns in a row of 64 bytes.
inline void configure(int rows_a, int bytes_a) {
    struct {
        uint8_t palette = 1, start = 0, zero[14] = {};
        uint16_t bytes[16] = {};
        uint8_t rows[16] = {};
    } c;
    for (int t = 0; t < 4; t++) {
        c.rows[t] = (uint8_t) rows_a;
        c.bytes[t] = 64;
    }
    c.rows[4] = (uint8_t) rows_a;
    c.bytes[4] = (uint16_t) bytes_a;
    for (int t = 5; t < 8; t++) {
        c.rows[t] = (uint8_t) (bytes_a / 4);
        c.bytes[t] = 64;
    }
    asm volatile("ldtilecfg %0" ::"m"(c));
}

template <int T> inline void tile_zero() { asm volatile("tilezero %%tmm%c0" ::"i"(T)); }
template <int T> inline void tile_load(const void * p, int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(p), "r"(stride), "i"(T) : "memory");
}
template <int T> inline void tile_store(void * p) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(p), "r"((int64_t) 64), "i"(T) : "memory");
}
template <int C, int A, int B> inline void tile_product() {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
}
template <int C, int A, int B> inline void tile_product_unsigned() { // the weights are without a sign
    asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
}

// Scales are of a chunk's columns; two sides of 16 columns each.
struct Scales {
    __m512 scale[2][kSteps], min[2][kSteps];
    __m512i mins[2][4]; // of columns and pairs of groups
};

using Products = int32_t[kSteps][kTile][kTile]; // of a tile's rows and 16 columns: [block, or high and low]

// Work is what a thread keeps while it does a panel, 60 KB of its stack. What is read most often fits the first cache.
struct alignas(64) Work {
    int8_t unpacked[2][kSteps * 2048]; // weights of a chunk: [side][step][8 or 16][64], or high bytes, then low ones
    const int8_t * weights[2];         // there, or where weights of 8 bits lie
    Products products[2];
    Scales scales[2]; // this chunk's and the next one's
    float sums[kMaxRows][kPanel];
};

// Rows of a tile, one chunk of their numbers: [step][16][32 or 64] bytes, then for each row eight numbers of 4 bytes.
template <int step>
struct Chunk {
    static constexpr int bytes = kSteps * kTile * step + kTile * 32;
    static float * scales(void * chunk, int row) {
        return (float *) ((char *) chunk + kSteps * kTile * step) + row * 8;
    }
    static const float * scales(const void * chunk, int row) { return scales(const_cast<void *>(chunk), row); }
};

inline __m512 to_floats(const void * halves) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *) halves)); }

// Blocks are weights in blocks of 32 with a scale in float16, and perhaps a minimum; a chunk has four.
template <typename TA, typename TB>
struct Blocks {
    static constexpr int step = 32, per_chunk = kSteps; // bytes of a row in a tile; blocks
    static constexpr bool has_min = std::is_same<TB, block_q4_1>::value;
    using Rows = Chunk<step>;

    static int size() { return get_tile_size<TB>(); }

    static void pack(const TA * a, int n, char * chunk, int row) {
        for (int b = 0; b < n; b++) {
            memcpy(chunk + b * kTile * step + row * step, a[b].qs, step);
            Rows::scales(chunk, row)[b] = GGML_CPU_FP16_TO_FP32(a[b].d);
            if constexpr (has_min) {
                Rows::scales(chunk, row)[kSteps + b] = GGML_CPU_FP16_TO_FP32(a[b].s);
            }
        }
    }

    static void unpack(const char * b, int n, Work & w, Scales & p, int side) {
        w.weights[side] = do_unpack<TB>::value ? w.unpacked[side] : (const int8_t *) b;
        for (int i = 0; i < n; i++, b += size()) {
            if constexpr (do_unpack<TB>::value) {
                unpack_B<TB>((packed_B_type<TB> *) w.unpacked[side] + i * 512, b);
            }
            const char * d = b + (do_unpack<TB>::value ? 256 : 512);
            p.scale[side][i] = to_floats(d);
            if constexpr (has_min) {
                p.min[side][i] = to_floats(d + kTile * sizeof(ggml_half));
            }
        }
    }

    template <int j> static void multiply(const char * chunk, Work & w) {
        constexpr int c = j % 2 * 2;
        const int stride = do_unpack<TB>::value ? 512 : size();
        tile_load<4>(chunk + j * kTile * step, step);
        tile_load<5>(w.weights[0] + j * stride, 64);
        tile_load<6>(w.weights[1] + j * stride, 64);
        tile_zero<c>();
        tile_product<c, 4, 5>();
        tile_store<c>(w.products[0][j]);
        tile_zero<c + 1>();
        tile_product<c + 1, 4, 6>();
        tile_store<c + 1>(w.products[1][j]);
    }

    // add adds up a tile's rows, whose sums so far are at from, if there are some.
    template <bool whole> static void add(const Products & products, const Scales & p, int side, int in,
                                          const void * chunk, int rows, const float * from, float * to, int64_t ld) {
        const int n = whole ? kSteps : in;
        __m512 scale[kSteps], min[kSteps];
        for (int b = 0; b < n; b++) {
            scale[b] = p.scale[side][b];
            min[b] = p.min[side][b];
        }
        for (int i = 0; i < rows; i++) {
            const float * of = Rows::scales(chunk, i);
            __m512 sum = from ? _mm512_load_ps(from + i * kPanel) : _mm512_setzero_ps();
            for (int b = 0; b < n; b++) {
                const __m512 product = _mm512_cvtepi32_ps(_mm512_load_si512(products[b][i]));
                sum = _mm512_fmadd_ps(product, _mm512_mul_ps(scale[b], _mm512_set1_ps(of[b])), sum);
                if constexpr (has_min) {
                    sum = _mm512_fmadd_ps(min[b], _mm512_set1_ps(of[kSteps + b]), sum);
                }
            }
            _mm512_storeu_ps(to + i * ld, sum);
        }
    }
};

// Groups are weights in blocks of 256 whose groups have whole-number scales; a chunk is a block.
template <typename TA, typename TB>
struct Groups {
    static constexpr int step = 64, per_chunk = 1;
    static constexpr bool has_mins = std::is_same<TB, block_q4_K>::value || std::is_same<TB, block_q5_K>::value;
    static constexpr int kShift = has_mins ? 3 : 8;
    using Rows = Chunk<step>;

    static void pack(const TA * a, int, char * chunk, int row) {
        for (int j = 0; j < kSteps; j++) {
            memcpy(chunk + j * kTile * step + row * step, a->qs + j * step, step);
        }
        float * s = Rows::scales(chunk, row);
        s[0] = a->d;
        s[1] = -a->d;
        int16_t groups[8]; // sums of the row's numbers, which minima are to be multiplied with
        for (int g = 0; g < 8; g++) {
            groups[g] = (int16_t) (a->bsums[2 * g] + a->bsums[2 * g + 1]);
        }
        memcpy(s + 4, groups, sizeof(groups));
    }

    // duplicate is 16 bits of each scale beside themselves.
    static __m512i duplicate(__m256i scales) {
        const __m512i half = _mm512_cvtepu16_epi32(scales);
        return _mm512_or_si512(half, _mm512_slli_epi32(half, 16));
    }

    // split writes quants times their columns' scales in two bytes each: high · 2^kShift + low.
    static void split(__m512i q, __m128i scales, int8_t * high, int8_t * low) {
        if constexpr (has_mins) { // at most 31 · 63: two digits of a scale; no product of a byte reaches into the next
            const __m128i digit = _mm_set1_epi8(7), lower = _mm_and_si128(scales, digit);
            const __m128i upper = _mm_and_si128(_mm_srli_epi16(scales, kShift), digit);
            _mm512_store_si512(high, _mm512_mullo_epi16(q, duplicate(_mm256_cvtepu8_epi16(upper))));
            _mm512_store_si512(low, _mm512_mullo_epi16(q, duplicate(_mm256_cvtepu8_epi16(lower))));
        } else {
            const __m512i scale = duplicate(_mm256_cvtepi8_epi16(scales)), byte = _mm512_set1_epi16(0xff);
            const __m512i even = _mm512_mullo_epi16(_mm512_srai_epi16(_mm512_slli_epi16(q, 8), 8), scale);
            const __m512i odd = _mm512_mullo_epi16(_mm512_srai_epi16(q, 8), scale);
            _mm512_store_si512(high, _mm512_or_si512(_mm512_srli_epi16(even, 8), _mm512_andnot_si512(byte, odd)));
            _mm512_store_si512(low, _mm512_or_si512(_mm512_and_si512(even, byte), _mm512_slli_epi16(odd, 8)));
        }
    }

    static void unpack(const char * b, int, Work & w, Scales & p, int side) {
        constexpr int group = std::is_same<TB, block_q6_K>::value ? 16 : 32; // numbers that share a scale
        alignas(64) int8_t quants[512];
        const char * scales = b + get_quants_size<TB>();
        int8_t * to = w.unpacked[side];
        for (int g = 0; g < QK_K / group; g++) {
            unpack_B<TB>(quants, b, g);
            const __m128i bytes = _mm_loadu_si128((const __m128i *) (scales + g * TILE_N));
            for (int r = 0; r < group / 4; r++, to += 64) {
                split(_mm512_load_si512(quants + r * 64), bytes, to, to + kSteps * 1024);
            }
        }
        const char * d = scales + QK_K / group * TILE_N;
        if constexpr (has_mins) {
            for (int k = 0; k < 4; k++) {
                p.mins[side][k] = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *) (d + k * 32)));
            }
            d += 8 * TILE_N;
            p.min[side][0] = to_floats(d + TILE_N * sizeof(ggml_half));
        }
        p.scale[side][0] = to_floats(d);
    }

    template <int j> static void multiply(const char * chunk, Work & w) {
        if constexpr (j == 0) {
            tile_zero<0>();
            tile_zero<1>();
            tile_zero<2>();
            tile_zero<3>();
        }
        constexpr int high = j * 1024, low = high + kSteps * 1024;
        tile_load<4>(chunk + j * kTile * step, step);
        tile_load<5>(w.unpacked[0] + high, 64);
        has_mins ? tile_product_unsigned<0, 4, 5>() : tile_product<0, 4, 5>();
        tile_load<6>(w.unpacked[0] + low, 64);
        tile_product_unsigned<1, 4, 6>();
        tile_load<7>(w.unpacked[1] + high, 64);
        has_mins ? tile_product_unsigned<2, 4, 7>() : tile_product<2, 4, 7>();
        tile_load<5>(w.unpacked[1] + low, 64);
        tile_product_unsigned<3, 4, 5>();
        if constexpr (j == kSteps - 1) {
            tile_store<0>(w.products[0][0]);
            tile_store<1>(w.products[0][1]);
            tile_store<2>(w.products[1][0]);
            tile_store<3>(w.products[1][1]);
        }
    }

    template <bool> static void add(const Products & products, const Scales & p, int side, int, const void * chunk,
                                    int rows, const float * from, float * to, int64_t ld) {
        const __m512 scale = p.scale[side][0], min = p.min[side][0];
        const __m512i mins[4] = {p.mins[side][0], p.mins[side][1], p.mins[side][2], p.mins[side][3]};
        for (int i = 0; i < rows; i++) {
            const float * of = Rows::scales(chunk, i);
            __m512 sum = from ? _mm512_load_ps(from + i * kPanel) : _mm512_setzero_ps();
            const __m512i high = _mm512_load_si512(products[0][i]), low = _mm512_load_si512(products[1][i]);
            const __m512 product = _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_slli_epi32(high, kShift), low));
            sum = _mm512_fmadd_ps(product, _mm512_mul_ps(_mm512_set1_ps(of[0]), scale), sum);
            if constexpr (has_mins) {
                __m512i groups = _mm512_setzero_si512();
                for (int k = 0; k < 4; k++) {
                    int32_t pair;
                    memcpy(&pair, of + 4 + k, sizeof(pair));
                    groups = _mm512_dpwssd_epi32(groups, _mm512_set1_epi32(pair), mins[k]);
                }
                sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(groups), _mm512_mul_ps(_mm512_set1_ps(of[1]), min), sum);
            }
            _mm512_storeu_ps(to + i * ld, sum);
        }
    }
};

template <typename TB>
struct Product {
    static constexpr bool is_q4_1 = std::is_same<TB, block_q4_1>::value;
    using Small = typename std::conditional<is_q4_1, block_q8_1, block_q8_0>::type;
    using TA = typename std::conditional<is_type_qkk<TB>::value, block_q8_K, Small>::type; // of rows
    using Kind = typename std::conditional<is_type_qkk<TB>::value, Groups<TA, TB>, Blocks<TA, TB>>::type;
    using Rows = typename Kind::Rows;

    int rows, columns, blocks; // of the product, and of a row

    int chunks() const { return div_up(blocks, Kind::per_chunk); }
    size_t row_tile() const { return (size_t) chunks() * Rows::bytes; }
    size_t packed() const { return div_up(rows, kTile) * row_tile(); }

    // pack puts a row that ggml has quantised where AMX takes it from; null is a row of zeros behind the last one.
    void pack(const TA * row, int r, char * to) const {
        to += r / kTile * row_tile();
        for (int c = 0; c < chunks(); c++, to += Rows::bytes) {
            if (row) {
                Kind::pack(row + c * Kind::per_chunk, blocks_in(c), to, r % kTile);
                continue;
            }
            for (int j = 0; j < kSteps; j++) {
                memset(to + (j * kTile + r % kTile) * Kind::step, 0, Kind::step);
            }
        }
    }

    // unpack makes ready a chunk of a panel's weights, and asks for the next one's.
    void unpack(const char * weights, int chunk, Work & w) const {
        const size_t side = (size_t) blocks * get_tile_size<TB>();
        const size_t size = (size_t) Kind::per_chunk * get_tile_size<TB>();
        for (int s = 0; s < 2; s++) {
            const char * from = weights + s * side + chunk * size;
            for (size_t i = 0; i < size; i += 64) {
                _mm_prefetch(from + size + i, _MM_HINT_T0);
            }
            Kind::unpack(from, blocks_in(chunk), w, w.scales[chunk % 2], s);
        }
    }

    int blocks_in(int chunk) const { return std::min<int>(Kind::per_chunk, blocks - chunk * Kind::per_chunk); }

    // panel writes kPanel columns of rows first … first+n-1.
    void panel(const char * packed, int first, int n, const char * weights, float * out, int64_t ldc) const {
        Work w;
        const int tiles = div_up(n, kTile);
        const char * from = packed + first / kTile * row_tile();
        unpack(weights, 0, w);
        for (int c = 0; c < chunks(); c++, from += Rows::bytes) {
            const bool whole = blocks_in(c) == Kind::per_chunk, last = c + 1 == chunks();
            const auto multiply = [&](const char * rows, auto j) {
                if (is_type_qkk<TB>::value || j < blocks_in(c)) {
                    Kind::template multiply<j>(rows, w);
                }
            };
            for (int t = 0; t < tiles; t++) {
                const char * rows = from + t * row_tile();
                multiply(rows, std::integral_constant<int, 0>{});
                multiply(rows, std::integral_constant<int, 1>{});
                multiply(rows, std::integral_constant<int, 2>{});
                multiply(rows, std::integral_constant<int, 3>{});
                if (t + 1 == tiles && !last) { // while AMX is busy
                    unpack(weights, c + 1, w);
                }
                float * sums = w.sums[t * kTile], * to = last ? out + t * kTile * ldc : sums;
                for (int s = 0; s < 2; s++, sums += kTile, to += kTile) {
                    const auto add = whole ? Kind::template add<true> : Kind::template add<false>;
                    add(w.products[s], w.scales[c % 2], s, blocks_in(c), rows, std::min(kTile, n - t * kTile),
                        c == 0 ? nullptr : sums, to, last ? ldc : kPanel);
                }
            }
        }
    }
};

// supported tells whether so many rows are multiplied here: prompts, and for two types also texts made together. For a
// few rows of the others ggml's code was as quick (ADR 10). SLUICE_MATMUL=ggml leaves all to it, to compare.
template <typename TB> bool supported(int rows) {
    static const bool off = [] {
        const char * s = getenv("SLUICE_MATMUL");
        return s && strcmp(s, "ggml") == 0;
    }();
    constexpr bool also_few = std::is_same<TB, block_q4_0>::value || std::is_same<TB, block_q6_K>::value;
    return rows > (also_few ? 1 : 8) && !off;
}

inline char * aligned(void * p) { return (char *) (((uintptr_t) p + 63) & ~(uintptr_t) 63); }

// workspace is what a product needs beside rows as ggml quantises them, in bytes.
template <typename TB> size_t workspace(int rows, int columns, int blocks, int64_t batches) {
    return supported<TB>(rows) ? batches * Product<TB>{rows, columns, blocks}.packed() + 64 : 0;
}

// matmul is ggml_backend_amx_mul_mat, dst = src1 · src0ᵀ, or returns false and leaves it to ggml.
template <typename TB> bool matmul(const ggml_compute_params * params, ggml_tensor * dst, int blocks) {
    if (!supported<TB>((int) dst->ne[1])) {
        return false;
    }
    using P = Product<TB>;
    const ggml_tensor *weights = dst->src[0], *in = dst->src[1];
    const P product{(int) dst->ne[1], (int) dst->ne[0], blocks};
    const int64_t batches = dst->ne[2] * dst->ne[3], numbers = in->ne[0];
    const size_t rows_quantised = batches * product.rows * blocks * sizeof(typename P::TA);
    if (params->wsize < rows_quantised + workspace<TB>(product.rows, product.columns, blocks, batches)) {
        return false; // planned by another ggml_backend_amx_desired_wsize than the patched one
    }
    if (params->ith == 0) {
        counters().products.fetch_add(1, std::memory_order_relaxed);
    }
    typename P::TA * quantised = (typename P::TA *) params->wdata;
    char * packed = aligned(quantised + batches * product.rows * blocks);

    const int padded = div_up(product.rows, kTile) * kTile;
    parallel_for_ggml(params, (int) batches * padded, [&](int begin, int end) {
        for (int i = begin; i < end; i++) {
            const int64_t batch = i / padded;
            const int row = i % padded;
            typename P::TA * to = nullptr;
            if (row < product.rows) {
                to = quantised + (batch * product.rows + row) * blocks;
                const char * from = (const char *) in->data + ggml_batch_offset(in, batch, dst->ne[2]);
                from_float<typename P::TA>((const float *) from + row * numbers, (char *) to, numbers);
            }
            product.pack(to, row, packed + batch * product.packed());
        }
    });
    ggml_barrier(params->threadpool);

    const int panels = product.columns / kPanel, parts = div_up(product.rows, kMaxRows);
    parallel_for_ggml(params, (int) batches * parts * panels, [&](int begin, int end) {
        configure(std::min(product.rows, kTile), P::Kind::step);
        for (int i = begin; i < end; i++) {
            const int64_t batch = i / (parts * panels);
            const int first = i / panels % parts * kMaxRows, column = i % panels * kPanel;
            const char * from = (const char *) weights->data + ggml_batch_offset(weights, batch, dst->ne[2]);
            float * out = (float *) ((char *) dst->data + ggml_batch_offset(dst, batch, dst->ne[2]));
            const int64_t ldc = dst->nb[1] / sizeof(float);
            from += (size_t) column / kTile * blocks * get_tile_size<TB>();
            product.panel(packed + batch * product.packed(), first, std::min(kMaxRows, product.rows - first), from,
                          out + first * ldc + column, ldc);
        }
    });
    return true;
}

} // namespace
} // namespace slc
