// BF16 stores the values of two vectors as bfloat16, rounded to nearest even, one after the other.
#define BF16(p, a, b) _mm512_storeu_si512(p, (__m512i)_mm512_cvtne2ps_pbh((__m512)(b), (__m512)(a)))
