// Attention over a KV cache that requests share: the set-up puts this file into ggml's CPU code, once per instruction set
// (internal/setup/isa.go), and ggml_compute_forward_flash_attn_ext_f16 asks it first.
//
// In a shared cache most cells are masked for most rows, and rows of one text, or of texts that begin alike, see the same
// cells. So cells are taken in blocks of 64, and of each block only the rows that see some of it: their scores and values
// are two small matrix products in registers. ggml's own code converts the mask and the keys number by number for every head,
// and for less than 64 rows it goes cell by cell, with an exponential each and values summed in float16.
// Softmax over blocks as in FlashAttention (Dao et al. 2022); sums are float32.
#pragma once

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <immintrin.h>

namespace slc {

constexpr int kCells = 64; // of a block
constexpr int kRows = 64;  // of a tile: rows of queries times the heads that share their keys

#if defined(__AVX512F__)
using vec = __m512;
constexpr int kWidth = 16, kColumns = 4; // floats of a vector, vectors of a product's strip
inline vec load(const float * p) { return _mm512_loadu_ps(p); }
inline vec load(const ggml_fp16_t * p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *) p)); }
inline void store(float * p, vec x) { _mm512_storeu_ps(p, x); }
inline vec fill(float x) { return _mm512_set1_ps(x); }
inline vec add(vec a, vec b) { return _mm512_add_ps(a, b); }
inline vec multiply(vec a, vec b) { return _mm512_mul_ps(a, b); }
inline vec larger(vec a, vec b) { return _mm512_max_ps(a, b); }
inline vec fma(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }
inline float total(vec x) { return _mm512_reduce_add_ps(x); }
inline float largest(vec x) { return _mm512_reduce_max_ps(x); }
inline vec low(vec a, vec b) { return _mm512_unpacklo_ps(a, b); }
inline vec high(vec a, vec b) { return _mm512_unpackhi_ps(a, b); }
inline vec low2(vec a, vec b) { return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b))); }
inline vec high2(vec a, vec b) { return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b))); }
#else
using vec = __m256;
constexpr int kWidth = 8, kColumns = 2;
inline vec load(const float * p) { return _mm256_loadu_ps(p); }
inline vec load(const ggml_fp16_t * p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *) p)); }
inline void store(float * p, vec x) { _mm256_storeu_ps(p, x); }
inline vec fill(float x) { return _mm256_set1_ps(x); }
inline vec add(vec a, vec b) { return _mm256_add_ps(a, b); }
inline vec multiply(vec a, vec b) { return _mm256_mul_ps(a, b); }
inline vec larger(vec a, vec b) { return _mm256_max_ps(a, b); }
inline vec fma(vec a, vec b, vec c) { return _mm256_fmadd_ps(a, b, c); }
inline float total(vec x) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
}
inline float largest(vec x) {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_shuffle_ps(s, s, 1)));
}
inline vec low(vec a, vec b) { return _mm256_unpacklo_ps(a, b); }
inline vec high(vec a, vec b) { return _mm256_unpackhi_ps(a, b); }
inline vec low2(vec a, vec b) { return _mm256_castpd_ps(_mm256_unpacklo_pd(_mm256_castps_pd(a), _mm256_castps_pd(b))); }
inline vec high2(vec a, vec b) { return _mm256_castpd_ps(_mm256_unpackhi_pd(_mm256_castps_pd(a), _mm256_castps_pd(b))); }
#endif

// turn writes kWidth numbers of kWidth cells, whose rows are `stride` bytes apart, as rows of numbers: out[number][cell].
inline void turn(const char * cells, size_t stride, float * out) {
    vec r[kWidth], t[kWidth];
    for (int i = 0; i < kWidth; i++) {
        r[i] = load((const ggml_fp16_t *) (cells + i * stride));
    }
    for (int i = 0; i < kWidth; i += 2) {
        t[i] = low(r[i], r[i + 1]);
        t[i + 1] = high(r[i], r[i + 1]);
    }
    for (int i = 0; i < kWidth; i += 4) { // then quarter l of r[4i+j] is number 4l+j of cells 4i to 4i+3
        r[i] = low2(t[i], t[i + 2]);
        r[i + 1] = high2(t[i], t[i + 2]);
        r[i + 2] = low2(t[i + 1], t[i + 3]);
        r[i + 3] = high2(t[i + 1], t[i + 3]);
    }
#if defined(__AVX512F__)
    for (int j = 0; j < 4; j++) {
        const vec even0 = _mm512_shuffle_f32x4(r[j], r[4 + j], 0x88), odd0 = _mm512_shuffle_f32x4(r[j], r[4 + j], 0xdd);
        const vec even1 = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0x88), odd1 = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0xdd);
        store(out + j * kCells, _mm512_shuffle_f32x4(even0, even1, 0x88));
        store(out + (4 + j) * kCells, _mm512_shuffle_f32x4(odd0, odd1, 0x88));
        store(out + (8 + j) * kCells, _mm512_shuffle_f32x4(even0, even1, 0xdd));
        store(out + (12 + j) * kCells, _mm512_shuffle_f32x4(odd0, odd1, 0xdd));
    }
#else
    for (int j = 0; j < 4; j++) {
        store(out + j * kCells, _mm256_permute2f128_ps(r[j], r[4 + j], 0x20));
        store(out + (4 + j) * kCells, _mm256_permute2f128_ps(r[j], r[4 + j], 0x31));
    }
#endif
}

// product adds a[R][n] · b[n][columns at c], rows of b being `wide` floats apart, to out[R][columns at c], or replaces it.
template <int R, int C>
inline void product(const float * const * a, const float * b, int wide, int n, float * const * out, int c, bool sum) {
    vec acc[R][C];
    for (int r = 0; r < R; r++) {
        for (int i = 0; i < C; i++) {
            acc[r][i] = sum ? load(out[r] + c + i * kWidth) : fill(0);
        }
    }
    for (int k = 0; k < n; k++) {
        vec x[C];
        for (int i = 0; i < C; i++) {
            x[i] = load(b + (size_t) k * wide + c + i * kWidth);
        }
        for (int r = 0; r < R; r++) {
            const vec y = fill(a[r][k]);
            for (int i = 0; i < C; i++) {
                acc[r][i] = fma(y, x[i], acc[r][i]);
            }
        }
    }
    for (int r = 0; r < R; r++) {
        for (int i = 0; i < C; i++) {
            store(out[r] + c + i * kWidth, acc[r][i]);
        }
    }
}

template <int C>
inline void strip(int rows, const float * const * a, const float * b, int wide, int n, float * const * out, int c, bool sum) {
    int r = 0;
    for (; r + 6 <= rows; r += 6) {
        product<6, C>(a + r, b, wide, n, out + r, c, sum);
    }
    switch (rows - r) {
        case 5: return product<5, C>(a + r, b, wide, n, out + r, c, sum);
        case 4: return product<4, C>(a + r, b, wide, n, out + r, c, sum);
        case 3: return product<3, C>(a + r, b, wide, n, out + r, c, sum);
        case 2: return product<2, C>(a + r, b, wide, n, out + r, c, sum);
        case 1: return product<1, C>(a + r, b, wide, n, out + r, c, sum);
    }
}

inline void products(int rows, const float * const * a, const float * b, int wide, int n, float * const * out, bool sum) {
    int c = 0;
    for (; c + kColumns * kWidth <= wide; c += kColumns * kWidth) {
        strip<kColumns>(rows, a, b, wide, n, out, c, sum);
    }
    for (; c < wide; c += kWidth) {
        strip<1>(rows, a, b, wide, n, out, c, sum);
    }
}

// same tells whether all of a block's numbers have these bits: 0xfc00 is minus infinity, 0 is nothing masked.
inline bool same(const ggml_fp16_t * mask, uint16_t bits) {
    const __m256i want = _mm256_set1_epi16((short) bits);
    for (int i = 0; i < kCells; i += 16) {
        const __m256i differs = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *) (mask + i)), want);
        if (!_mm256_testz_si256(differs, differs)) {
            return false;
        }
    }
    return true;
}

// Attention is the operation's operands; see ggml_flash_attn_ext in ggml.h for their shapes.
struct Attention {
    const ggml_tensor *q, *k, *v, *mask;
    ggml_tensor * out;
    int64_t rows, heads, shared; // rows of a sequence of the batch, heads of queries, and how many of them share keys
    int64_t cells, keys, values; // cells of the cache, numbers of a key and of a value
    float scale, cap;            // cap: of scores, by tanh; 0: none

    explicit Attention(ggml_tensor * dst)
        : q(dst->src[0]), k(dst->src[1]), v(dst->src[2]), mask(dst->src[3]), out(dst), rows(q->ne[1]), heads(q->ne[2]),
          shared(k->ne[2] ? heads / k->ne[2] : 0), cells(k->ne[1]), keys(k->ne[0]), values(v->ne[0]) {
        memcpy(&scale, (const float *) dst->op_params + 0, sizeof(float));
        memcpy(&cap, (const float *) dst->op_params + 2, sizeof(float));
        if (cap != 0) {
            scale /= cap;
        }
    }

    // The rest is left to ggml: other types, positions by ALiBi, sinks, odd shapes.
    bool ours() const {
        float bias = 0;
        memcpy(&bias, (const float *) out->op_params + 1, sizeof(float));
        return q->type == GGML_TYPE_F32 && k->type == GGML_TYPE_F16 && v->type == GGML_TYPE_F16 && bias == 0 && !out->src[4] &&
               q->nb[0] == sizeof(float) && k->nb[0] == 2 && v->nb[0] == 2 && keys % 16 == 0 && values % 16 == 0 &&
               cells % kCells == 0 && cells > 0 && shared > 0 && shared <= kRows && k->ne[2] * shared == heads &&
               v->ne[2] == k->ne[2] && k->ne[3] == q->ne[3] && v->ne[3] == q->ne[3] &&
               (!mask || (mask->type == GGML_TYPE_F16 && mask->nb[0] == 2 && mask->ne[2] == 1 && mask->ne[0] >= cells));
    }
};

// Tile is a thread's place to work in, of the size that ggml plans for its own tiles (ggml_graph_plan).
struct Tile {
    float *keys, *values, *scores, *masks, *queries, *sums; // [keys][cells], [cells][values], [rows][cells] twice, [rows][keys], [rows][values]
    float most[kRows], weight[kRows];                       // the largest score so far, and the sum of exponentials below it

    static size_t floats(const Attention & a) { return kRows * (2 * (a.keys + a.values) + 2 * kCells); }

    Tile(const Attention & a, float * at) {
        keys = at;
        values = keys + kCells * a.keys;
        scores = values + kCells * a.values;
        masks = scores + kRows * kCells;
        queries = masks + kRows * kCells;
        sums = queries + kRows * a.keys;
    }

    // attend takes rows row … row+n-1 of sequence i3, for the heads that share keys `head`, over cells from … to-1. Their places
    // in the tile begin at `place`.
    void attend(const Attention & a, int64_t i3, int64_t head, int64_t row, int n, int64_t from, int64_t to, int place) {
        for (int r = 0; r < n; r++) {
            for (int g = 0; g < a.shared; g++) {
                const int i = place + r * (int) a.shared + g;
                const float * q = (const float *) ((const char *) a.q->data + (row + r) * a.q->nb[1] + (head * a.shared + g) * a.q->nb[2] + i3 * a.q->nb[3]);
                for (int64_t c = 0; c < a.keys; c += kWidth) {
                    store(queries + i * a.keys + c, multiply(load(q + c), fill(a.scale)));
                }
                memset(sums + i * a.values, 0, a.values * sizeof(float));
                most[i] = -INFINITY;
                weight[i] = 0;
            }
        }
        for (int64_t c = from; c < to; c += kCells) {
            block(a, i3, head, row, n, c, place);
        }
    }

    void block(const Attention & a, int64_t i3, int64_t head, int64_t row, int n, int64_t cell, int place) {
        int at[kRows], active = 0;
        const float * mask[kRows];
        const float * query[kRows];
        float * score[kRows];
        float * sum[kRows];
        for (int r = 0; r < n; r++) {
            const float * hidden = nullptr;
            if (a.mask) {
                const ggml_fp16_t * m = (const ggml_fp16_t *) ((const char *) a.mask->data + (row + r) * a.mask->nb[1] + (i3 % a.mask->ne[3]) * a.mask->nb[3]) + cell;
                if (same(m, 0xfc00)) {
                    continue;
                }
                if (!same(m, 0)) {
                    for (int i = 0; i < kCells; i += kWidth) {
                        store(masks + r * kCells + i, load(m + i));
                    }
                    hidden = masks + r * kCells;
                }
            }
            for (int g = 0; g < a.shared; g++) {
                const int i = place + r * (int) a.shared + g;
                at[active] = i;
                mask[active] = hidden;
                query[active] = queries + i * a.keys;
                score[active] = scores + active * kCells;
                sum[active] = sums + i * a.values;
                active++;
            }
        }
        if (active == 0) {
            return;
        }
        const char * k = (const char *) a.k->data + cell * a.k->nb[1] + head * a.k->nb[2] + i3 * a.k->nb[3];
        const char * v = (const char *) a.v->data + cell * a.v->nb[1] + head * a.v->nb[2] + i3 * a.v->nb[3];
        for (int64_t d = 0; d < a.keys; d += kWidth) {
            for (int i = 0; i < kCells; i += kWidth) {
                turn(k + i * a.k->nb[1] + d * 2, a.k->nb[1], keys + d * kCells + i);
            }
        }
        products(active, query, keys, kCells, (int) a.keys, score, false);
        for (int i = 0; i < active; i++) {
            soften(a, at[i], score[i], mask[i]);
        }
        for (int i = 0; i < kCells; i++) {
            for (int64_t d = 0; d < a.values; d += kWidth) {
                store(values + i * a.values + d, load((const ggml_fp16_t *) (v + i * a.v->nb[1]) + d));
            }
        }
        products(active, score, values, (int) a.values, kCells, sum, true);
    }

    // soften makes weights of a block's scores, and brings what was summed before to the same scale.
    void soften(const Attention & a, int i, float * score, const float * hidden) {
        if (a.cap != 0) {
            for (int c = 0; c < kCells; c++) {
                score[c] = a.cap * tanhf(score[c]);
            }
        }
        vec top = fill(-INFINITY);
        for (int c = 0; c < kCells; c += kWidth) {
            vec s = load(score + c);
            if (hidden) {
                s = add(s, load(hidden + c));
                store(score + c, s);
            }
            top = larger(top, s);
        }
        const float before = most[i], now = std::fmax(before, largest(top));
        if (now == -INFINITY) {
            memset(score, 0, kCells * sizeof(float));
            return;
        }
        if (now > before) {
            const float shrink = expf(before - now);
            for (int64_t d = 0; d < a.values; d += kWidth) {
                store(sums + i * a.values + d, multiply(load(sums + i * a.values + d), fill(shrink)));
            }
            weight[i] *= shrink;
            most[i] = now;
        }
        vec all = fill(0);
        for (int c = 0; c < kCells; c += kWidth) {
            const vec e = ggml_v_expf(add(load(score + c), fill(-now)));
            store(score + c, e);
            all = add(all, e);
        }
        weight[i] += total(all);
    }
};

inline void write(const Attention & a, int64_t i3, int64_t row, int64_t head, const float * sum, float weight) {
    const float share = weight == 0 ? 0 : 1 / weight;
    float * to = (float *) ((char *) a.out->data + (i3 * a.rows * a.heads + row * a.heads + head) * a.out->nb[1]);
    for (int64_t d = 0; d < a.values; d += kWidth) {
        store(to + d, multiply(load(sum + d), fill(share)));
    }
}

// one is for a single row: threads take parts of the cells, then heads, whose parts they put together.
inline void one(const ggml_compute_params * params, const Attention & a) {
    float * const work = (float *) params->wdata;
    const size_t size = Tile::floats(a);
    Tile tile(a, work + params->ith * size);
    const int64_t blocks = a.cells / kCells;
    const int64_t from = blocks * params->ith / params->nth * kCells, to = blocks * (params->ith + 1) / params->nth * kCells;
    for (int64_t head = 0; head < a.heads / a.shared; head++) {
        tile.attend(a, 0, head, 0, 1, from, to, (int) (head * a.shared));
    }
    memcpy(tile.masks + kCells, tile.most, sizeof(tile.most)); // for the others; one row's mask is before it
    memcpy(tile.masks + 2 * kCells, tile.weight, sizeof(tile.weight));
    ggml_barrier(params->threadpool);
    Tile sum(a, work + params->ith * size); // only its keys' place is used: nobody reads that any more
    for (int64_t head = params->ith; head < a.heads; head += params->nth) {
        float most = -INFINITY, weight = 0;
        memset(sum.keys, 0, a.values * sizeof(float));
        for (int t = 0; t < params->nth; t++) {
            const Tile part(a, work + t * size);
            most = std::fmax(most, part.masks[kCells + head]);
        }
        for (int t = 0; t < params->nth; t++) {
            const Tile part(a, work + t * size);
            const float had = part.masks[2 * kCells + head];
            if (had == 0) {
                continue;
            }
            const float shrink = expf(part.masks[kCells + head] - most);
            weight += had * shrink;
            for (int64_t d = 0; d < a.values; d += kWidth) {
                store(sum.keys + d, fma(load(part.sums + head * a.values + d), fill(shrink), load(sum.keys + d)));
            }
        }
        write(a, 0, 0, head, sum.keys, weight);
    }
}

// many gives tiles of rows to threads as they come.
inline void many(const ggml_compute_params * params, const Attention & a) {
    const int64_t groups = a.heads / a.shared, sequences = a.q->ne[3];
    const int64_t least = (4 * params->nth + groups * sequences - 1) / (groups * sequences); // tiles of a group, so that all threads have work
    const int64_t n = std::max<int64_t>(1, std::min<int64_t>(kRows / a.shared, (a.rows + least - 1) / least));
    const int64_t tiles = (a.rows + n - 1) / n;
    if (params->ith == 0) {
        ggml_threadpool_chunk_set(params->threadpool, params->nth);
    }
    ggml_barrier(params->threadpool);
    Tile tile(a, (float *) params->wdata + params->ith * Tile::floats(a));
    for (int64_t task = params->ith; task < tiles * groups * sequences; task = ggml_threadpool_chunk_add(params->threadpool, 1)) {
        const int64_t row = task % tiles * n, group = task / tiles % groups, i3 = task / tiles / groups;
        const int count = (int) std::min(n, a.rows - row);
        tile.attend(a, i3, group, row, count, 0, a.cells, 0);
        for (int r = 0; r < count; r++) {
            for (int g = 0; g < a.shared; g++) {
                const int i = r * (int) a.shared + g;
                write(a, i3, row + r, group * a.shared + g, tile.sums + i * a.values, tile.weight[i]);
            }
        }
    }
}

// attention does the operation, or returns false and leaves it to ggml. SLUICE_ATTENTION=ggml leaves all to ggml, to compare.
inline bool attention(const ggml_compute_params * params, ggml_tensor * dst) {
    static const bool off = [] {
        const char * s = getenv("SLUICE_ATTENTION");
        return s && strcmp(s, "ggml") == 0;
    }();
    const Attention a(dst);
    if (off || params->use_ref || !a.ours()) {
        return false;
    }
    if (a.rows == 1 && a.q->ne[3] == 1 && a.heads <= kRows) {
        one(params, a);
    } else {
        many(params, a);
    }
    return true;
}

} // namespace slc

#else

namespace slc {
inline bool attention(const ggml_compute_params *, ggml_tensor *) { return false; }
} // namespace slc

#endif
