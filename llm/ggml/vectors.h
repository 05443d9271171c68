// Vectors of floats, and products of small matrices of them, for attention.h: in the widest registers that this file is
// compiled for, AVX2 or AVX-512.
#pragma once

#include <cmath>
#include <cstddef>
#include <immintrin.h>

namespace slc {

#if defined(__AVX512F__)
using vec = __m512;
constexpr int kWidth = 16;  // floats of a vector
constexpr int kColumns = 4; // vectors in a strip of a matrix product
inline vec load(const float * p) { return _mm512_loadu_ps(p); }
inline vec load(const ggml_fp16_t * p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *) p)); }
inline void store(float * p, vec x) { _mm512_storeu_ps(p, x); }
inline vec broadcast(float x) { return _mm512_set1_ps(x); }
inline vec add(vec a, vec b) { return _mm512_add_ps(a, b); }
inline vec multiply(vec a, vec b) { return _mm512_mul_ps(a, b); }
inline vec maximum(vec a, vec b) { return _mm512_max_ps(a, b); }
inline vec fma(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }
inline vec round_to_nearest(vec x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
// scale_by_power_of_two is x · 2^n for whole n, 0 where score is minus infinity.
inline vec scale_by_power_of_two(vec x, vec n, vec score) {
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(score, _mm512_set1_ps(-INFINITY), _CMP_GT_OQ), x, n);
}
inline float horizontal_max(vec x) { return _mm512_reduce_max_ps(x); }
inline float lane0(vec x) { return _mm512_cvtss_f32(x); }
inline vec unpack_low(vec a, vec b) { return _mm512_unpacklo_ps(a, b); }
inline vec unpack_high(vec a, vec b) { return _mm512_unpackhi_ps(a, b); }
inline vec unpack_low2(vec a, vec b) {
    return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
}
inline vec unpack_high2(vec a, vec b) {
    return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
}
#else
using vec = __m256;
constexpr int kWidth = 8;
constexpr int kColumns = 2;
inline vec load(const float * p) { return _mm256_loadu_ps(p); }
inline vec load(const ggml_fp16_t * p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *) p)); }
inline void store(float * p, vec x) { _mm256_storeu_ps(p, x); }
inline vec broadcast(float x) { return _mm256_set1_ps(x); }
inline vec add(vec a, vec b) { return _mm256_add_ps(a, b); }
inline vec multiply(vec a, vec b) { return _mm256_mul_ps(a, b); }
inline vec maximum(vec a, vec b) { return _mm256_max_ps(a, b); }
inline vec fma(vec a, vec b, vec c) { return _mm256_fmadd_ps(a, b, c); }
inline vec round_to_nearest(vec x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline vec scale_by_power_of_two(vec x, vec n, vec score) {
    const vec some = _mm256_and_ps(_mm256_cmp_ps(score, _mm256_set1_ps(-INFINITY), _CMP_GT_OQ),
                                   _mm256_cmp_ps(n, _mm256_set1_ps(-125), _CMP_GE_OQ));
    const __m256i exponent = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
    return _mm256_and_ps(some, _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), exponent)));
}
inline float lane0(vec x) { return _mm256_cvtss_f32(x); }
inline float horizontal_max(vec x) {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_shuffle_ps(s, s, 1)));
}
inline vec unpack_low(vec a, vec b) { return _mm256_unpacklo_ps(a, b); }
inline vec unpack_high(vec a, vec b) { return _mm256_unpackhi_ps(a, b); }
inline vec unpack_low2(vec a, vec b) {
    return _mm256_castpd_ps(_mm256_unpacklo_pd(_mm256_castps_pd(a), _mm256_castps_pd(b)));
}
inline vec unpack_high2(vec a, vec b) {
    return _mm256_castpd_ps(_mm256_unpackhi_pd(_mm256_castps_pd(a), _mm256_castps_pd(b)));
}
#endif

// exponential is 2^(x - max) for a whole number max, 0 for minus infinity; its error is below 2e-7. What is rounded
// does not depend on max. Polynomial: Cephes' exp2f.
inline vec exponential(vec x, float max) {
    const vec n = round_to_nearest(x), f = add(x, multiply(n, broadcast(-1)));
    vec y = broadcast(1.535336188319500e-4f);
    for (float c : {1.339887440266574e-3f, 9.618437357674640e-3f, 5.550332471162809e-2f, 2.402264791363012e-1f,
                    6.931472028550421e-1f, 1.f}) {
        y = fma(y, f, broadcast(c));
    }
    return scale_by_power_of_two(y, add(n, broadcast(-max)), x);
}

// transpose reads kWidth float16 numbers of kWidth rows, `offset` bytes from their beginnings, and writes them as
// kWidth rows of floats that are `wide` floats apart: out[number][row].
inline void transpose(const char * const * rows, size_t offset, float * out, int wide) {
    vec r[kWidth], t[kWidth];
    for (int i = 0; i < kWidth; i++) {
        r[i] = load((const ggml_fp16_t *) (rows[i] + offset));
    }
    for (int i = 0; i < kWidth; i += 2) {
        t[i] = unpack_low(r[i], r[i + 1]);
        t[i + 1] = unpack_high(r[i], r[i + 1]);
    }
    for (int i = 0; i < kWidth; i += 4) { // then quarter l of r[4i+j] is number 4l+j of rows 4i to 4i+3
        r[i] = unpack_low2(t[i], t[i + 2]);
        r[i + 1] = unpack_high2(t[i], t[i + 2]);
        r[i + 2] = unpack_low2(t[i + 1], t[i + 3]);
        r[i + 3] = unpack_high2(t[i + 1], t[i + 3]);
    }
#if defined(__AVX512F__)
    for (int j = 0; j < 4; j++) {
        const vec even0 = _mm512_shuffle_f32x4(r[j], r[4 + j], 0x88), odd0 = _mm512_shuffle_f32x4(r[j], r[4 + j], 0xdd);
        const vec even1 = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0x88);
        const vec odd1 = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0xdd);
        store(out + j * wide, _mm512_shuffle_f32x4(even0, even1, 0x88));
        store(out + (4 + j) * wide, _mm512_shuffle_f32x4(odd0, odd1, 0x88));
        store(out + (8 + j) * wide, _mm512_shuffle_f32x4(even0, even1, 0xdd));
        store(out + (12 + j) * wide, _mm512_shuffle_f32x4(odd0, odd1, 0xdd));
    }
#else
    for (int j = 0; j < 4; j++) {
        store(out + j * wide, _mm256_permute2f128_ps(r[j], r[4 + j], 0x20));
        store(out + (4 + j) * wide, _mm256_permute2f128_ps(r[j], r[4 + j], 0x31));
    }
#endif
}

// Floats is a matrix whose rows are `wide` floats apart.
struct Floats {
    const float * from;
    int wide;
    vec at(int row, int column) const { return load(from + (size_t) row * wide + column); }
};

// product adds a[R][n] · b[n][columns at c] to out[R][columns at c], or replaces it. With weigh, it also adds each row
// of a to its weight.
template <int R, int C, bool weigh, class B>
inline void product(const float * const * a, const B & b, int n, float * const * out, int c, bool sum,
                    float * const * weight) {
    vec acc[R][C], all[R];
    for (int r = 0; r < R; r++) {
        for (int i = 0; i < C; i++) {
            acc[r][i] = sum ? load(out[r] + c + i * kWidth) : broadcast(0);
        }
        all[r] = broadcast(weigh ? *weight[r] : 0);
    }
    for (int k = 0; k < n; k++) {
        vec x[C];
        for (int i = 0; i < C; i++) {
            x[i] = b.at(k, c + i * kWidth);
        }
        for (int r = 0; r < R; r++) {
            const vec y = broadcast(a[r][k]);
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
            *weight[r] = lane0(all[r]);
        }
    }
}

constexpr int kStrip = kColumns > 2 ? 5 : 4; // rows of a strip of kColumns: their sums stay in registers

// strip is product for any number of rows.
template <int C, bool weigh, class B>
inline void strip(int rows, const float * const * a, const B & b, int n, float * const * out, int c, bool sum,
                  float * const * w) {
    constexpr int R = C == kColumns ? kStrip : 4;
    int r = 0;
    for (; r + R <= rows; r += R) {
        product<R, C, weigh>(a + r, b, n, out + r, c, sum, w + r);
    }
    switch (rows - r) {
        case 4: return product<4, C, weigh>(a + r, b, n, out + r, c, sum, w + r);
        case 3: return product<3, C, weigh>(a + r, b, n, out + r, c, sum, w + r);
        case 2: return product<2, C, weigh>(a + r, b, n, out + r, c, sum, w + r);
        case 1: return product<1, C, weigh>(a + r, b, n, out + r, c, sum, w + r);
    }
}

} // namespace slc
