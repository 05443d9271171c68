// Attention over a KV cache that requests share: the set-up puts this file into ggml's CPU code, once per instruction set
// (tools/setup/isa.go), and ggml_compute_forward_flash_attn_ext_f16 asks it first.
//
// In a shared cache most cells are masked for most rows, and rows of one text, or of texts that begin alike, see the same
// cells. So cells are taken in blocks of 64, and of each block only the rows that see some of it: their scores and values
// are two small matrix products in registers. ggml's own code converts the mask and the keys number by number for every head,
// and for less than 64 rows it goes cell by cell, with an exponential each and values summed in float16.
// Softmax over blocks as in FlashAttention (Dao et al. 2022), with sums in float32 and scales that are powers of two. Scaling by
// these is exact, and every sum goes over a text's tokens in the order of their cells, so that a row's result has the same bits
// whatever else is in the batch, wherever in the cache its cells lie, and on any number of threads.
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
inline vec nearest(vec x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
// power is x · 2^n for whole n, 0 where seen is minus infinity.
inline vec power(vec x, vec n, vec seen) {
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(seen, _mm512_set1_ps(-INFINITY), _CMP_GT_OQ), x, n);
}
inline float largest(vec x) { return _mm512_reduce_max_ps(x); }
inline float first(vec x) { return _mm512_cvtss_f32(x); }
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
inline vec nearest(vec x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline vec power(vec x, vec n, vec seen) {
    const vec some = _mm256_and_ps(_mm256_cmp_ps(seen, _mm256_set1_ps(-INFINITY), _CMP_GT_OQ), _mm256_cmp_ps(n, _mm256_set1_ps(-125), _CMP_GE_OQ));
    return _mm256_and_ps(some, _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23))));
}
inline float first(vec x) { return _mm256_cvtss_f32(x); }
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

// exponential is 2^(x - most) for a whole number `most`, 0 for minus infinity; its error is below 2e-7. What is rounded does not
// depend on `most`. Polynomial: Cephes' exp2f.
inline vec exponential(vec x, float most) {
    const vec n = nearest(x), f = add(x, multiply(n, fill(-1)));
    vec y = fill(1.535336188319500e-4f);
    for (float c : {1.339887440266574e-3f, 9.618437357674640e-3f, 5.550332471162809e-2f, 2.402264791363012e-1f, 6.931472028550421e-1f, 1.f}) {
        y = fma(y, f, fill(c));
    }
    return power(y, add(n, fill(-most)), x);
}

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

// product adds a[R][n] · b[n][columns at c], rows of b being `wide` floats apart, to out[R][columns at c], or replaces it. With
// weigh, it also adds each row of a to its weight.
template <int R, int C, bool weigh>
inline void product(const float * const * a, const float * b, int wide, int n, float * const * out, int c, bool sum, float * const * weight) {
    vec acc[R][C], all[R];
    for (int r = 0; r < R; r++) {
        for (int i = 0; i < C; i++) {
            acc[r][i] = sum ? load(out[r] + c + i * kWidth) : fill(0);
        }
        all[r] = fill(weigh ? *weight[r] : 0);
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
            if (weigh) {
                all[r] = add(all[r], y);
            }
        }
    }
    for (int r = 0; r < R; r++) {
        for (int i = 0; i < C; i++) {
            store(out[r] + c + i * kWidth, acc[r][i]);
        }
        if (weigh) {
            *weight[r] = first(all[r]);
        }
    }
}

template <int C, bool weigh>
inline void strip(int rows, const float * const * a, const float * b, int wide, int n, float * const * out, int c, bool sum, float * const * w) {
    constexpr int R = C > 2 ? 5 : 4; // so that all sums stay in registers
    int r = 0;
    for (; r + R <= rows; r += R) {
        product<R, C, weigh>(a + r, b, wide, n, out + r, c, sum, w + r);
    }
    switch (rows - r) {
        case 4: return product<4, C, weigh>(a + r, b, wide, n, out + r, c, sum, w + r);
        case 3: return product<3, C, weigh>(a + r, b, wide, n, out + r, c, sum, w + r);
        case 2: return product<2, C, weigh>(a + r, b, wide, n, out + r, c, sum, w + r);
        case 1: return product<1, C, weigh>(a + r, b, wide, n, out + r, c, sum, w + r);
    }
}

// scores are queries · keys, [rows][cells].
inline void scores(int rows, const float * const * queries, const float * keys, int n, float * const * out) {
    for (int c = 0; c < kCells; c += kColumns * kWidth) {
        strip<kColumns, false>(rows, queries, keys, kCells, n, out, c, false, out);
    }
}

// sums add weights · values to what is there, [rows][wide], and the weights to theirs.
inline void sums(int rows, const float * const * weights, const float * values, int wide, float * const * out, float * const * weight) {
    int c = 0;
    if (wide >= kColumns * kWidth) {
        strip<kColumns, true>(rows, weights, values, wide, kCells, out, c, true, weight);
        c += kColumns * kWidth;
    } else {
        strip<1, true>(rows, weights, values, wide, kCells, out, c, true, weight);
        c += kWidth;
    }
    for (; c + kColumns * kWidth <= wide; c += kColumns * kWidth) {
        strip<kColumns, false>(rows, weights, values, wide, kCells, out, c, true, weight);
    }
    for (; c < wide; c += kWidth) {
        strip<1, false>(rows, weights, values, wide, kCells, out, c, true, weight);
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

    static constexpr float kLog2e = 1.44269504f; // scores are of base 2

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

    const ggml_fp16_t * hidden(int64_t i3, int64_t row, int64_t cell) const {
        return mask ? (const ggml_fp16_t *) ((const char *) mask->data + row * mask->nb[1] + (i3 % mask->ne[3]) * mask->nb[3]) + cell : nullptr;
    }

    // query writes a row's numbers, scaled.
    void query(int64_t i3, int64_t head, int64_t row, float * to) const {
        const float * from = (const float *) ((const char *) q->data + row * q->nb[1] + head * q->nb[2] + i3 * q->nb[3]);
        for (int64_t c = 0; c < keys; c += kWidth) {
            store(to + c, multiply(load(from + c), fill(cap != 0 ? scale : scale * kLog2e)));
        }
    }

    // turned writes a block's keys, [number][cell].
    void turned(int64_t i3, int64_t head, int64_t cell, float * to) const {
        const char * from = (const char *) k->data + cell * k->nb[1] + head * k->nb[2] + i3 * k->nb[3];
        for (int64_t d = 0; d < keys; d += kWidth) {
            for (int i = 0; i < kCells; i += kWidth) {
                turn(from + i * k->nb[1] + d * 2, k->nb[1], to + d * kCells + i);
            }
        }
    }

    // widened writes columns of a block's values, [cell][n columns from c].
    void widened(int64_t i3, int64_t head, int64_t cell, int64_t c, int64_t n, float * to) const {
        const char * from = (const char *) v->data + cell * v->nb[1] + head * v->nb[2] + i3 * v->nb[3] + c * 2;
        for (int i = 0; i < kCells; i++) {
            for (int64_t d = 0; d < n; d += kWidth) {
                store(to + i * n + d, load((const ggml_fp16_t *) (from + i * v->nb[1]) + d));
            }
        }
    }

    // seen applies cap and mask to a block's scores, which then are of base 2, and returns the largest one.
    float seen(float * score, const ggml_fp16_t * hidden) const {
        if (cap != 0) {
            for (int c = 0; c < kCells; c++) {
                score[c] = cap * kLog2e * tanhf(score[c]);
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
        return largest(top);
    }

    // write divides columns of a row's sum by its weight.
    void write(int64_t i3, int64_t row, int64_t head, int64_t c, int64_t n, const float * sum, float weight) const {
        const float part = weight == 0 ? 0 : 1 / weight;
        float * to = (float *) ((char *) out->data + (i3 * rows * heads + row * heads + head) * out->nb[1]) + c;
        for (int64_t d = 0; d < n; d += kWidth) {
            store(to + d, multiply(load(sum + d), fill(part)));
        }
    }
};

inline void soften(float * score, float most) {
    for (int c = 0; c < kCells; c += kWidth) {
        store(score + c, exponential(load(score + c), most));
    }
}

// Tile is a thread's place to work in, of the size that ggml plans for its own tiles (ggml_graph_plan).
struct Tile {
    const Attention & a;
    float *keys, *values, *scores, *queries, *sums; // [keys][cells], [cells][values], [rows][cells], [rows][keys], [rows][values]
    float most[kRows], weight[kRows]; // the largest score so far, rounded up, and the sum of 2^(score - most)

    static size_t floats(const Attention & a) { return kRows * (2 * (a.keys + a.values) + 2 * kCells); }

    Tile(const Attention & of, float * at) : a(of) {
        keys = at;
        values = keys + kCells * a.keys;
        scores = values + kCells * a.values;
        queries = scores + kRows * kCells;
        sums = queries + kRows * a.keys;
    }

    // attend does rows row … row+n-1 of sequence i3, for the heads that share keys `group`.
    void attend(int64_t i3, int64_t group, int64_t row, int n) {
        for (int i = 0; i < n * a.shared; i++) {
            a.query(i3, group * a.shared + i % a.shared, row + i / a.shared, queries + i * a.keys);
            memset(sums + i * a.values, 0, a.values * sizeof(float));
            most[i] = -INFINITY;
            weight[i] = 0;
        }
        for (int64_t cell = 0; cell < a.cells; cell += kCells) {
            block(i3, group, row, n, cell);
        }
        for (int i = 0; i < n * a.shared; i++) {
            a.write(i3, row + i / a.shared, group * a.shared + i % a.shared, 0, a.values, sums + i * a.values, weight[i]);
        }
    }

    void block(int64_t i3, int64_t group, int64_t row, int n, int64_t cell) {
        int active = 0;
        const ggml_fp16_t * hidden[kRows];
        const float * query[kRows];
        float *score[kRows], *sum[kRows], *weights[kRows];
        for (int r = 0; r < n; r++) {
            const ggml_fp16_t * h = a.hidden(i3, row + r, cell);
            if (h && same(h, 0xfc00)) {
                continue;
            }
            for (int g = 0; g < a.shared; g++) {
                const int i = r * (int) a.shared + g;
                hidden[active] = h;
                query[active] = queries + i * a.keys;
                score[active] = scores + active * kCells;
                sum[active] = sums + i * a.values;
                weights[active] = weight + i;
                active++;
            }
        }
        if (active == 0) {
            return;
        }
        a.turned(i3, group, cell, keys);
        slc::scores(active, query, keys, (int) a.keys, score);
        for (int i = 0; i < active; i++) {
            const float now = std::ceil(a.seen(score[i], hidden[i]));
            rescale(weights[i] - weight, now);
            soften(score[i], most[weights[i] - weight]);
        }
        a.widened(i3, group, cell, 0, a.values, values);
        slc::sums(active, score, values, (int) a.values, sum, weights);
    }

    // rescale brings what was summed before to the scale of a larger score.
    void rescale(ptrdiff_t i, float now) {
        if (!(now > most[i])) {
            return;
        }
        const float shrink = most[i] == -INFINITY ? 0 : std::ldexp(1.f, (int) std::fmax(most[i] - now, -200));
        for (int64_t d = 0; d < a.values; d += kWidth) {
            store(sums + i * a.values + d, multiply(load(sums + i * a.values + d), fill(shrink)));
        }
        weight[i] *= shrink;
        most[i] = now;
    }
};

// Row is a single row, which has less parts than a machine has threads: these first share its cells for the scores, then columns
// of values. The sums are Tile's.
struct Row {
    static constexpr int64_t kChunk = 32; // columns of values: 64 bytes

    const ggml_compute_params * params;
    const Attention & a;
    float *all, *tops;               // [heads][cells] scores and [threads][heads] the largest ones, of all threads
    float *work, *score, *queries;   // [keys][cells] or [cells][chunk]; [shared][cells]; [shared][keys]; of this thread

    static size_t own(const Attention & a) { return kCells * std::max(a.keys, kChunk) + a.shared * (kCells + a.keys); }
    static bool fits(const ggml_compute_params * params, const Attention & a) {
        return a.rows == 1 && a.q->ne[3] == 1 && params->nth > 1 && a.values % kChunk == 0 &&
               (size_t) (a.heads * a.cells) + params->nth * (a.heads + own(a)) <= params->nth * Tile::floats(a);
    }

    Row(const ggml_compute_params * with, const Attention & of) : params(with), a(of) {
        all = (float *) params->wdata;
        tops = all + a.heads * a.cells;
        work = tops + params->nth * a.heads + params->ith * own(a);
        score = work + kCells * std::max(a.keys, kChunk);
        queries = score + a.shared * kCells;
    }

    void attend() {
        const int64_t groups = a.heads / a.shared, blocks = a.cells / kCells;
        for (int64_t group = 0; group < groups; group++) {
            look(group, blocks * params->ith / params->nth * kCells, blocks * (params->ith + 1) / params->nth * kCells);
        }
        ggml_barrier(params->threadpool);
        const int64_t chunks = a.values / kChunk;
        for (int64_t i = params->ith; i < groups * chunks; i += params->nth) {
            collect(i / chunks, i % chunks * kChunk);
        }
    }

    // look computes the scores of cells from … to-1.
    void look(int64_t group, int64_t from, int64_t to) {
        const float * query[kRows];
        float * out[kRows];
        float * top = tops + params->ith * a.heads + group * a.shared;
        for (int g = 0; g < a.shared; g++) {
            query[g] = queries + g * a.keys;
            a.query(0, group * a.shared + g, 0, queries + g * a.keys);
            top[g] = -INFINITY;
        }
        for (int64_t cell = from; cell < to; cell += kCells) {
            const ggml_fp16_t * hidden = a.hidden(0, 0, cell);
            if (hidden && same(hidden, 0xfc00)) {
                continue;
            }
            a.turned(0, group, cell, work);
            for (int g = 0; g < a.shared; g++) {
                out[g] = all + (group * a.shared + g) * a.cells + cell;
            }
            scores((int) a.shared, query, work, (int) a.keys, out);
            for (int g = 0; g < a.shared; g++) {
                top[g] = std::fmax(top[g], a.seen(out[g], hidden));
            }
        }
    }

    // collect sums columns c … c+kChunk-1 of a group's values.
    void collect(int64_t group, int64_t c) {
        alignas(64) float sum[kRows][kChunk] = {};
        float weight[kRows] = {}, most[kRows];
        float *out[kRows], *weights[kRows];
        const float * softened[kRows];
        for (int g = 0; g < a.shared; g++) {
            most[g] = -INFINITY;
            for (int t = 0; t < params->nth; t++) {
                most[g] = std::fmax(most[g], tops[t * a.heads + group * a.shared + g]);
            }
            most[g] = std::ceil(most[g]);
            out[g] = sum[g];
            weights[g] = weight + g;
            softened[g] = score + g * kCells;
        }
        for (int64_t cell = 0; cell < a.cells; cell += kCells) {
            const ggml_fp16_t * hidden = a.hidden(0, 0, cell);
            if (hidden && same(hidden, 0xfc00)) {
                continue;
            }
            for (int g = 0; g < a.shared; g++) {
                memcpy(score + g * kCells, all + (group * a.shared + g) * a.cells + cell, kCells * sizeof(float));
                soften(score + g * kCells, most[g]);
            }
            a.widened(0, group, cell, c, kChunk, work);
            sums((int) a.shared, softened, work, kChunk, out, weights);
        }
        for (int g = 0; g < a.shared; g++) {
            a.write(0, 0, group * a.shared + g, c, kChunk, sum[g], weight[g]);
        }
    }
};

// share gives tiles of rows to threads as they come.
inline void share(const ggml_compute_params * params, const Attention & a) {
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
        tile.attend(i3, group, row, (int) std::min(n, a.rows - row));
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
    if (Row::fits(params, a)) {
        Row(params, a).attend();
    } else {
        share(params, a);
    }
    return true;
}

} // namespace slc

#else

namespace slc {
inline bool attention(const ggml_compute_params *, ggml_tensor *) { return false; }
} // namespace slc

#endif
