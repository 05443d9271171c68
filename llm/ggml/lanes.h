// Registers with a number of each of several rows, AVX2's or AVX-512's, for the products of quantised weights.
#pragma once

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    SLC_VECTORS = 16, // vectors at a time: their sums stay in registers, or close by
    SLC_MANY = 128,   // the most vectors for which rows are unpacked once
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

// slc_add_pairs adds the products of two numbers of 16 bits of each lane.
static inline slc_bytes slc_add_pairs(slc_bytes sum, slc_bytes a, slc_bytes b) {
    return _mm512_dpwssd_epi32(sum, a, b);
}

#define SLC_VNNI
// slc_add_fours adds, in each lane, the products of four unsigned weights with four numbers of the vector.
static inline slc_bytes slc_add_fours(slc_bytes sum, slc_bytes weights, slc_bytes vector) {
    return _mm512_dpbusd_epi32(sum, weights, vector);
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

static inline slc_bytes slc_add_pairs(slc_bytes sum, slc_bytes a, slc_bytes b) {
#if defined(__AVXVNNI__)
    return _mm256_dpwssd_avx_epi32(sum, a, b);
#else
    return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
#endif
}

#if defined(__AVXVNNI__)
#define SLC_VNNI
static inline slc_bytes slc_add_fours(slc_bytes sum, slc_bytes weights, slc_bytes vector) {
    return _mm256_dpbusd_avx_epi32(sum, weights, vector);
}
#endif

#endif

#if defined(SLC_VNNI)

// The instruction multiplies unsigned weights by signed numbers of the vector. SLC_SIGN is added to signed weights.
enum { SLC_SIGN = 128 };
static inline slc_bytes slc_of_signed(slc_bytes x) { return x ^ slc_ints((int) 0x80808080); }

// slc_dot adds 4 n products of each row's weights with a vector's numbers to sum. `most` is the largest weight.
static inline __attribute__((always_inline)) slc_bytes slc_dot(int n, int most, slc_bytes sum,
                                                               const slc_bytes * weights, const int8_t * vector) {
    (void) most;
#pragma GCC unroll 8
    for (int k = 0; k < n; k++) {
        sum = slc_add_fours(sum, weights[k], slc_ints(slc_four_bytes(vector + 4 * k)));
    }
    return sum;
}

#else

// Products of numbers of 8 bits with a sign are of their absolute values and the vector's numbers, which take the
// sign.
enum { SLC_SIGN = 0 };
static inline slc_bytes slc_of_signed(slc_bytes x) { return x; }

// Sums of 16 bits hold the products of as many weights of at most `most` with numbers of at most 127 as fit. Weights of
// up to 128 have a sign.
static inline __attribute__((always_inline)) slc_bytes slc_dot(int n, int most, slc_bytes sum,
                                                               const slc_bytes * weights, const int8_t * vector) {
    const int fit = most <= 15 ? 8 : most <= 31 ? 4 : most <= 63 ? 2 : 1;
#pragma GCC unroll 8
    for (int k = 0; k < n; k += fit) {
        __m256i part = _mm256_setzero_si256();
#pragma GCC unroll 8
        for (int i = k; i < k + fit && i < n; i++) {
            slc_bytes w = weights[i], y = slc_ints(slc_four_bytes(vector + 4 * i));
            if (most == 128) {
                y = _mm256_sign_epi8(y, w);
                w = _mm256_abs_epi8(w);
            }
            part = _mm256_add_epi16(part, _mm256_maddubs_epi16(w, y));
        }
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(part, _mm256_set1_epi16(1)));
    }
    return sum;
}

#endif

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
