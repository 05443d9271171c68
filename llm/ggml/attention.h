// Attention over a KV cache that requests share. The set-up puts this file into ggml's CPU code, once per instruction
// set (tools/setup/isa.go), and a patch makes ggml_compute_forward_flash_attn_ext_f16 ask it first.
//
// In a shared cache most cells are masked for most rows, and rows of one text, or of texts that begin alike, see the
// same cells. So cells are taken in blocks of 64, and of each block only the rows that see some of it: their scores and
// values are two small matrix products in registers. Texts that are made together have a cell in turns: of a block of
// which each row sees little, its cells are put aside, and a row's 64 make a block of its own. ggml's own code converts
// the mask and the keys number by number for every head, and for less than 64 rows it goes cell by cell, with an
// exponential each and values summed in float16. Softmax over blocks as in FlashAttention (Dao et al. 2022), with sums
// in float32 and scales that are powers of two. Scaling by these is exact, and every sum goes over a text's tokens in
// the order of their cells, so that a row's result has the same bits whatever else is in the batch, wherever in the
// cache its cells lie, and on any number of threads.
#pragma once

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)

#include "ran.h"
#include "vectors.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace slc {

constexpr int kCells = 64; // of a block
constexpr int kRows = 64;  // of a tile: rows of queries times the heads that share their keys

// scores are queries · keys, [rows][cells].
inline void scores(int rows, const float * const * queries, const float * keys, int n, float * const * out) {
    for (int c = 0; c < kCells; c += kColumns * kWidth) {
        strip<kColumns, false>(rows, queries, Floats{keys, kCells}, n, out, c, false, out);
    }
}

// sums add weights · values to what is there, [rows][wide], and the weights to theirs.
template <class Values>
inline void sums(int rows, const float * const * weights, const Values & values, int wide, float * const * out,
                 float * const * weight) {
    int c = 0;
    if (wide >= kColumns * kWidth) {
        strip<kColumns, true>(rows, weights, values, kCells, out, c, true, weight);
        c += kColumns * kWidth;
    } else {
        strip<1, true>(rows, weights, values, kCells, out, c, true, weight);
        c += kWidth;
    }
    for (; c + kColumns * kWidth <= wide; c += kColumns * kWidth) {
        strip<kColumns, false>(rows, weights, values, kCells, out, c, true, weight);
    }
    for (; c < wide; c += kWidth) {
        strip<1, false>(rows, weights, values, kCells, out, c, true, weight);
    }
}

// visible has a bit for each cell of a block whose mask is not minus infinity.
inline uint64_t visible(const ggml_fp16_t * mask) {
    const __m256i hidden = _mm256_set1_epi16((short) 0xfc00);
    uint64_t bits = 0;
    for (int i = 0; i < kCells; i += 32) {
        const __m256i a = _mm256_cmpeq_epi16(_mm256_loadu_si256((const __m256i *) (mask + i)), hidden);
        const __m256i b = _mm256_cmpeq_epi16(_mm256_loadu_si256((const __m256i *) (mask + i + 16)), hidden);
        const __m256i both = _mm256_permute4x64_epi64(_mm256_packs_epi16(a, b), 0xd8);
        bits |= (uint64_t) ~(uint32_t) _mm256_movemask_epi8(both) << i;
    }
    return bits;
}

// Halves are the values of a block's cells as the cache has them.
struct Halves {
    const char * from;
    const int64_t * cells;
    size_t stride;
    vec at(int row, int column) const { return load((const ggml_fp16_t *) (from + cells[row] * stride) + column); }
};

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

    // supported tells what is done here. The rest is left to ggml: other types, positions by ALiBi, sinks, odd shapes.
    bool supported() const {
        float bias = 0;
        memcpy(&bias, (const float *) out->op_params + 1, sizeof(float));
        return q->type == GGML_TYPE_F32 && k->type == GGML_TYPE_F16 && v->type == GGML_TYPE_F16 && bias == 0 &&
               !out->src[4] && q->nb[0] == sizeof(float) && k->nb[0] == 2 && v->nb[0] == 2 && keys % 16 == 0 &&
               values % 16 == 0 && cells % kCells == 0 && cells > 0 && shared > 0 && shared <= kRows &&
               k->ne[2] * shared == heads && v->ne[2] == k->ne[2] && k->ne[3] == q->ne[3] && v->ne[3] == q->ne[3] &&
               (!mask || (mask->type == GGML_TYPE_F16 && mask->nb[0] == 2 && mask->ne[2] == 1 && mask->ne[0] >= cells));
    }

    // mask_row is a row's mask from a cell on; null: nothing is masked.
    const ggml_fp16_t * mask_row(int64_t i3, int64_t row, int64_t cell) const {
        if (!mask) {
            return nullptr;
        }
        const char * at = (const char *) mask->data + row * mask->nb[1] + (i3 % mask->ne[3]) * mask->nb[3];
        return (const ggml_fp16_t *) at + cell;
    }

    // query writes a row's numbers, scaled.
    void query(int64_t i3, int64_t head, int64_t row, float * to) const {
        const char * at = (const char *) q->data + row * q->nb[1] + head * q->nb[2] + i3 * q->nb[3];
        const float * from = (const float *) at;
        for (int64_t c = 0; c < keys; c += kWidth) {
            store(to + c, multiply(load(from + c), broadcast(cap != 0 ? scale : scale * kLog2e)));
        }
    }

    // transposed_keys writes the keys of a block's cells, [number][cell].
    void transposed_keys(int64_t i3, int64_t head, const int64_t * block, float * to) const {
        const char * from = (const char *) k->data + head * k->nb[2] + i3 * k->nb[3];
        for (int i = 0; i < kCells; i += kWidth) {
            const char * rows[kWidth];
            for (int j = 0; j < kWidth; j++) {
                rows[j] = from + block[i + j] * k->nb[1];
            }
            for (int64_t d = 0; d < keys; d += kWidth) {
                transpose(rows, d * 2, to + d * kCells + i, kCells);
            }
        }
    }

    // half_values are columns of the values of a block's cells, from c on.
    Halves half_values(int64_t i3, int64_t head, const int64_t * block, int64_t c) const {
        return {(const char *) v->data + head * v->nb[2] + i3 * v->nb[3] + c * 2, block, v->nb[1]};
    }

    // float_values writes them, n columns, [cell][column].
    static void float_values(const Halves & from, int64_t n, float * to) {
        for (int i = 0; i < kCells; i++) {
            for (int64_t d = 0; d < n; d += kWidth) {
                store(to + i * n + d, from.at(i, (int) d));
            }
        }
    }

    // mask_scores applies cap and mask to a block's scores, which then are of base 2, and returns the largest one.
    float mask_scores(float * score, const ggml_fp16_t * mask) const {
        if (cap != 0) {
            for (int c = 0; c < kCells; c++) {
                score[c] = cap * kLog2e * tanhf(score[c]);
            }
        }
        vec max = broadcast(-INFINITY);
        for (int c = 0; c < kCells; c += kWidth) {
            vec s = load(score + c);
            if (mask) {
                s = add(s, load(mask + c));
                store(score + c, s);
            }
            max = maximum(max, s);
        }
        return horizontal_max(max);
    }

    // write divides columns of a row's sum by its weight.
    void write(int64_t i3, int64_t row, int64_t head, int64_t c, int64_t n, const float * sum, float weight) const {
        const float part = weight == 0 ? 0 : 1 / weight;
        float * to = (float *) ((char *) out->data + (i3 * rows * heads + row * heads + head) * out->nb[1]) + c;
        for (int64_t d = 0; d < n; d += kWidth) {
            store(to + d, multiply(load(sum + d), broadcast(part)));
        }
    }
};

// exponentiate replaces a block's scores by 2^(score - max).
inline void exponentiate(float * score, float max) {
    for (int c = 0; c < kCells; c += kWidth) {
        store(score + c, exponential(load(score + c), max));
    }
}

// ggml plans a thread's workspace for its own tiles (ggml_graph_plan), and this is how large these are.
static_assert(GGML_FA_TILE_Q == kRows && GGML_FA_TILE_KV == kCells, "ggml's tiles have another size: see Tile::floats");

// Cells are those of a block that follow each other.
struct Cells {
    int64_t at[kCells];
    explicit Cells(int64_t first) {
        for (int i = 0; i < kCells; i++) {
            at[i] = first + i;
        }
    }
};

// Aside are cells that a row sees, with their mask, until there are enough for a block.
struct Aside {
    int count = 0;
    int64_t cells[kCells];
    ggml_fp16_t mask[kCells];
};

// Tile is a thread's workspace.
struct Tile {
    const Attention & a;
    float *keys, *values;           // of a block: [keys][cells], [cells][values]
    float *scores, *queries, *sums; // [rows][cells], [rows][keys], [rows][values]
    float max[kRows];               // of each row: the largest score so far, rounded up,
    float weight[kRows];            // and the sum of 2^(score - max)
    Aside aside[kRows];

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
            max[i] = -INFINITY;
            weight[i] = 0;
        }
        for (int64_t cell = 0; cell < a.cells; cell += kCells) {
            cells(i3, group, row, n, cell);
        }
        for (int r = 0; r < n; r++) {
            own_block(i3, group, r);
        }
        for (int i = 0; i < n * a.shared; i++) {
            const int64_t head = group * a.shared + i % a.shared;
            a.write(i3, row + i / a.shared, head, 0, a.values, sums + i * a.values, weight[i]);
        }
    }

    // cells adds what the cells from `cell` on give to the rows that see some of them, or puts them aside. A row's
    // cells are added in their order.
    void cells(int64_t i3, int64_t group, int64_t row, int n, int64_t cell) {
        int rows[kRows], active = 0, seen = 0;
        const ggml_fp16_t * mask[kRows];
        uint64_t bits[kRows];
        for (int r = 0; r < n; r++) {
            const ggml_fp16_t * m = a.mask_row(i3, row + r, cell);
            const uint64_t b = m ? visible(m) : ~UINT64_C(0);
            if (b) {
                rows[active] = r;
                mask[active] = m;
                bits[active] = b;
                active++;
                seen += __builtin_popcountll(b);
            }
        }
        // A block's keys and values are converted at about the cost of the products of four of its rows.
        constexpr int64_t kConverted = 4;
        if (seen * (kConverted + a.shared) >= kCells * (kConverted + active * a.shared)) {
            for (int i = 0; i < active; i++) {
                own_block(i3, group, rows[i]);
            }
            block(i3, group, Cells(cell).at, active, rows, mask);
            return;
        }
        for (int i = 0; i < active; i++) {
            for (uint64_t b = bits[i]; b; b &= b - 1) {
                const int c = __builtin_ctzll(b);
                Aside & own = aside[rows[i]];
                own.cells[own.count] = cell + c;
                own.mask[own.count] = mask[i][c];
                if (++own.count == kCells) {
                    own_block(i3, group, rows[i]);
                }
            }
        }
    }

    // own_block adds what was put aside for a row. A block that is not full repeats a cell, masked.
    void own_block(int64_t i3, int64_t group, int row) {
        Aside & own = aside[row];
        if (own.count == 0) {
            return;
        }
        for (int i = own.count; i < kCells; i++) {
            own.cells[i] = own.cells[0];
            own.mask[i] = 0xfc00;
        }
        const ggml_fp16_t * mask = own.mask;
        block(i3, group, own.cells, 1, &row, &mask);
        own.count = 0;
    }

    // block adds what a block of cells gives to n rows.
    void block(int64_t i3, int64_t group, const int64_t * cells, int n, const int * rows,
               const ggml_fp16_t * const * masks) {
        int active = 0;
        const ggml_fp16_t * mask[kRows];
        const float * query[kRows];
        float *score[kRows], *sum[kRows], *weights[kRows];
        for (int r = 0; r < n; r++) {
            for (int g = 0; g < a.shared; g++) {
                const int i = rows[r] * (int) a.shared + g;
                mask[active] = masks[r];
                query[active] = queries + i * a.keys;
                score[active] = scores + active * kCells;
                sum[active] = sums + i * a.values;
                weights[active] = weight + i;
                active++;
            }
        }
        a.transposed_keys(i3, group, cells, keys);
        slc::scores(active, query, keys, (int) a.keys, score);
        for (int i = 0; i < active; i++) {
            const float now = std::ceil(a.mask_scores(score[i], mask[i]));
            rescale(weights[i] - weight, now);
            exponentiate(score[i], max[weights[i] - weight]);
        }
        const Halves halves = a.half_values(i3, group, cells, 0);
        if (active <= kStrip) { // each value is read once
            slc::sums(active, score, halves, (int) a.values, sum, weights);
            return;
        }
        a.float_values(halves, a.values, values);
        slc::sums(active, score, Floats{values, (int) a.values}, (int) a.values, sum, weights);
    }

    // rescale brings what was summed before to the scale of a larger score.
    void rescale(ptrdiff_t i, float now) {
        if (!(now > max[i])) {
            return;
        }
        const float shrink = max[i] == -INFINITY ? 0 : std::ldexp(1.f, (int) std::fmax(max[i] - now, -200));
        for (int64_t d = 0; d < a.values; d += kWidth) {
            store(sums + i * a.values + d, multiply(load(sums + i * a.values + d), broadcast(shrink)));
        }
        weight[i] *= shrink;
        max[i] = now;
    }
};

// Row is a single row, which has less parts than a machine has threads: these first share its cells for the scores,
// then columns of values. The sums are Tile's.
struct Row {
    static constexpr int64_t kChunk = 32; // columns of values: 64 bytes

    const ggml_compute_params * params;
    const Attention & a;
    float *scores, *maxima;        // of all threads: [heads][cells], and the largest ones, [threads][heads]
    float *work, *score, *queries; // of this thread: [keys][cells]; [shared][cells]; [shared][keys]

    // Floats of a thread's workspace.
    static size_t own(const Attention & a) { return kCells * a.keys + a.shared * (kCells + a.keys); }
    static bool fits(const ggml_compute_params * params, const Attention & a) {
        return a.rows == 1 && a.q->ne[3] == 1 && params->nth > 1 && a.values % kChunk == 0 &&
               (size_t) (a.heads * a.cells) + params->nth * (a.heads + own(a)) <= params->nth * Tile::floats(a);
    }

    Row(const ggml_compute_params * with, const Attention & of) : params(with), a(of) {
        scores = (float *) params->wdata;
        maxima = scores + a.heads * a.cells;
        work = maxima + params->nth * a.heads + params->ith * own(a);
        score = work + kCells * a.keys;
        queries = score + a.shared * kCells;
    }

    void attend() {
        const int64_t groups = a.heads / a.shared, blocks = a.cells / kCells;
        for (int64_t group = 0; group < groups; group++) {
            const int64_t from = blocks * params->ith / params->nth, to = blocks * (params->ith + 1) / params->nth;
            score_cells(group, from * kCells, to * kCells);
        }
        ggml_barrier(params->threadpool);
        const int64_t chunks = a.values / kChunk;
        for (int64_t i = params->ith; i < groups * chunks; i += params->nth) {
            sum_values(i / chunks, i % chunks * kChunk);
        }
    }

    // score_cells computes the scores of cells from … to-1.
    void score_cells(int64_t group, int64_t from, int64_t to) {
        const float * query[kRows];
        float * out[kRows];
        float * max = maxima + params->ith * a.heads + group * a.shared;
        for (int g = 0; g < a.shared; g++) {
            query[g] = queries + g * a.keys;
            a.query(0, group * a.shared + g, 0, queries + g * a.keys);
            max[g] = -INFINITY;
        }
        for (int64_t cell = from; cell < to; cell += kCells) {
            const ggml_fp16_t * mask = a.mask_row(0, 0, cell);
            if (mask && !visible(mask)) {
                continue;
            }
            a.transposed_keys(0, group, Cells(cell).at, work);
            for (int g = 0; g < a.shared; g++) {
                out[g] = scores + (group * a.shared + g) * a.cells + cell;
            }
            slc::scores((int) a.shared, query, work, (int) a.keys, out);
            for (int g = 0; g < a.shared; g++) {
                max[g] = std::fmax(max[g], a.mask_scores(out[g], mask));
            }
        }
    }

    // sum_values sums columns c … c+kChunk-1 of a group's values.
    void sum_values(int64_t group, int64_t c) {
        alignas(64) float sum[kRows][kChunk] = {};
        float weight[kRows] = {}, max[kRows];
        float *out[kRows], *total[kRows];
        const float * weights[kRows];
        for (int g = 0; g < a.shared; g++) {
            max[g] = -INFINITY;
            for (int t = 0; t < params->nth; t++) {
                max[g] = std::fmax(max[g], maxima[t * a.heads + group * a.shared + g]);
            }
            max[g] = std::ceil(max[g]);
            out[g] = sum[g];
            total[g] = weight + g;
            weights[g] = score + g * kCells;
        }
        for (int64_t cell = 0; cell < a.cells; cell += kCells) {
            const ggml_fp16_t * mask = a.mask_row(0, 0, cell);
            if (mask && !visible(mask)) {
                continue;
            }
            for (int g = 0; g < a.shared; g++) {
                memcpy(score + g * kCells, scores + (group * a.shared + g) * a.cells + cell, kCells * sizeof(float));
                exponentiate(score + g * kCells, max[g]);
            }
            const Cells block(cell);
            const Halves halves = a.half_values(0, group, block.at, c);
            slc::sums((int) a.shared, weights, halves, kChunk, out, total);
        }
        for (int g = 0; g < a.shared; g++) {
            a.write(0, 0, group * a.shared + g, c, kChunk, sum[g], weight[g]);
        }
    }
};

// attend_tiles gives tiles of rows to threads as they come.
inline void attend_tiles(const ggml_compute_params * params, const Attention & a) {
    const int64_t groups = a.heads / a.shared, sequences = a.q->ne[3];
    // Tiles of a group, so that all threads have work, and rows of a tile.
    const int64_t min_tiles = (4 * params->nth + groups * sequences - 1) / (groups * sequences);
    const int64_t n = std::max<int64_t>(1, std::min<int64_t>(kRows / a.shared, (a.rows + min_tiles - 1) / min_tiles));
    const int64_t tiles = (a.rows + n - 1) / n;
    if (params->ith == 0) {
        ggml_threadpool_chunk_set(params->threadpool, params->nth);
    }
    ggml_barrier(params->threadpool);
    Tile tile(a, (float *) params->wdata + params->ith * Tile::floats(a));
    const int64_t tasks = tiles * groups * sequences;
    for (int64_t task = params->ith; task < tasks; task = ggml_threadpool_chunk_add(params->threadpool, 1)) {
        const int64_t row = task % tiles * n, group = task / tiles % groups, i3 = task / tiles / groups;
        tile.attend(i3, group, row, (int) std::min(n, a.rows - row));
    }
}

// attention does the operation, or returns false and leaves it to ggml. SLUICE_ATTENTION=ggml leaves all to ggml, to
// compare.
inline bool attention(const ggml_compute_params * params, ggml_tensor * dst) {
    static const bool off = [] {
        const char * s = getenv("SLUICE_ATTENTION");
        return s && strcmp(s, "ggml") == 0;
    }();
    const Attention a(dst);
    if (off || params->use_ref || !a.supported() || params->wsize < params->nth * Tile::floats(a) * sizeof(float)) {
        return false;
    }
    if (params->ith == 0) {
        counters().attention.fetch_add(1, std::memory_order_relaxed);
    }
    if (Row::fits(params, a)) {
        Row(params, a).attend();
    } else {
        attend_tiles(params, a);
    }
    return true;
}

} // namespace slc

#else

namespace slc {
inline bool attention(const ggml_compute_params *, ggml_tensor *) { return false; }
} // namespace slc

#endif
