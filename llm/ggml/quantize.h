// Vectors quantised in blocks of 256 (Q8_K), for which ggml's code for x86 has nothing quicker than the reference. The
// same numbers as ggml's quantize_row_q8_K_ref. C and C++ include this file.
#pragma once

#if defined(__AVX512BW__) && defined(__AVX512VNNI__)

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define SLC_QUANTIZE 1

static inline void slc_quantize_q8_K(const float * x, block_q8_K * y, int64_t n) {
    enum { vectors = QK_K / 16 };
    for (; n > 0; n -= QK_K, x += QK_K, y++) {
        __m512 v[vectors], max = _mm512_setzero_ps();
        for (int i = 0; i < vectors; i++) {
            v[i] = _mm512_loadu_ps(x + 16 * i);
            max = _mm512_max_ps(max, _mm512_abs_ps(v[i]));
        }
        const float max_abs = _mm512_reduce_max_ps(max);
        if (!(max_abs > 0)) {
            memset(y, 0, sizeof(*y));
            continue;
        }
        float sign = 1; // of the first one that is as large
        for (int i = 0; i < vectors; i++) {
            const __mmask16 equal = _mm512_cmp_ps_mask(_mm512_abs_ps(v[i]), _mm512_set1_ps(max_abs), _CMP_EQ_OQ);
            if (equal) {
                sign = x[16 * i + __builtin_ctz(equal)] < 0 ? -1 : 1;
                break;
            }
        }
        const float scale = -127 / (sign * max_abs);
        for (int i = 0; i < vectors; i += 4) {
            for (int j = 0; j < 4; j++) {
                const __m512i q = _mm512_cvtps_epi32(_mm512_mul_ps(v[i + j], _mm512_set1_ps(scale)));
                const __m128i bytes = _mm512_cvtepi32_epi8(_mm512_min_epi32(q, _mm512_set1_epi32(127)));
                _mm_storeu_si128((__m128i *) (y->qs + 16 * (i + j)), bytes);
            }
            const __m512i quants = _mm512_loadu_si512(y->qs + 16 * i);
            __m512i s = _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(1), quants);
            s = _mm512_add_epi32(s, _mm512_shuffle_epi32(s, _MM_PERM_BADC));
            s = _mm512_add_epi32(s, _mm512_shuffle_epi32(s, _MM_PERM_CDAB));
            y->bsums[i] = (int16_t) _mm_cvtsi128_si32(_mm512_castsi512_si128(s));
            y->bsums[i + 1] = (int16_t) _mm_cvtsi128_si32(_mm512_extracti32x4_epi32(s, 1));
            y->bsums[i + 2] = (int16_t) _mm_cvtsi128_si32(_mm512_extracti32x4_epi32(s, 2));
            y->bsums[i + 3] = (int16_t) _mm_cvtsi128_si32(_mm512_extracti32x4_epi32(s, 3));
        }
        y->d = 1 / scale;
    }
}

#endif
