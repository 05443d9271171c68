// Register-resident peaks and reading speed. The instructions stand in inline assembly so that no
// compiler removes, merges or weakens them.
#define _GNU_SOURCE
#include "limits.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REP8(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7)
#define REP12(M) REP8(M) M(8) M(9) M(10) M(11)
#define REP24(M) REP12(M) M(12) M(13) M(14) M(15) M(16) M(17) M(18) M(19) M(20) M(21) M(22) M(23)

int lim_amx(void) {
	enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
	return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 ? 0 : -1;
}

static double base(int64_t n) {
	__m128 x = _mm_set1_ps(0.5f);
#define ZERO(i) __m128 a##i = _mm_setzero_ps();
	REP12(ZERO)
#undef ZERO
	// A multiply and an add of independent values: what a dot product without FMA needs per step.
#define STEP(i)                                                                          \
	__asm__ volatile("movaps %1, %%xmm15\n\tmulps %1, %%xmm15\n\taddps %%xmm15, %0" \
	                 : "+x"(a##i) : "x"(x) : "xmm15");
	for (int64_t t = 0; t < n; t++) { REP12(STEP) }
#undef STEP
	return 12.0 * 8 * n;
}

#pragma GCC push_options
#pragma GCC target("avx2,fma")
static double avx2(int64_t n) {
	__m256 x = _mm256_setzero_ps();
#define ZERO(i) __m256 a##i = _mm256_setzero_ps();
	REP12(ZERO)
#undef ZERO
#define STEP(i) __asm__ volatile("vfmadd231ps %1, %1, %0" : "+x"(a##i) : "x"(x));
	for (int64_t t = 0; t < n; t++) { REP12(STEP) }
#undef STEP
	return 12.0 * 16 * n;
}

static float read_avx2(const char *p, size_t n) {
	__m256 s[8];
	for (int i = 0; i < 8; i++) s[i] = _mm256_setzero_ps();
	for (size_t at = 0; at < n; at += 512)
		for (int i = 0; i < 16; i++)
			s[i & 7] = _mm256_xor_ps(s[i & 7], _mm256_load_ps((const float *)(p + at + 32 * i)));
	for (int i = 1; i < 8; i++) s[0] = _mm256_xor_ps(s[0], s[i]);
	return _mm256_cvtss_f32(s[0]);
}
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f")
#define ZERO(i) __m512 a##i = _mm512_setzero_ps();
static double avx512(int64_t n) {
	__m512 x = _mm512_setzero_ps();
	REP24(ZERO)
#define STEP(i) __asm__ volatile("vfmadd231ps %1, %1, %0" : "+v"(a##i) : "v"(x));
	for (int64_t t = 0; t < n; t++) { REP24(STEP) }
#undef STEP
	return 24.0 * 32 * n;
}

static double vnni(int64_t n) {
	__m512 x = _mm512_setzero_ps();
	REP24(ZERO)
#define STEP(i) __asm__ volatile("vpdpbusd %1, %1, %0" : "+v"(a##i) : "v"(x));
	for (int64_t t = 0; t < n; t++) { REP24(STEP) }
#undef STEP
	return 24.0 * 128 * n;
}
#undef ZERO

static float read_avx512(const char *p, size_t n) {
	__m512i s[8];
	for (int i = 0; i < 8; i++) s[i] = _mm512_setzero_si512();
	for (size_t at = 0; at < n; at += 512)
		for (int i = 0; i < 8; i++) s[i] = _mm512_xor_si512(s[i], _mm512_load_si512(p + at + 64 * i));
	for (int i = 1; i < 8; i++) s[0] = _mm512_xor_si512(s[0], s[i]);
	return _mm_cvtss_f32(_mm512_castps512_ps128(_mm512_castsi512_ps(s[0])));
}
#pragma GCC pop_options

// Four accumulator tiles of 16 × 16 over two by two operands: the form a matrix product has.
static void tiles(void) {
	struct { uint8_t palette, start, reserved[14]; uint16_t bytes[16]; uint8_t rows[16]; } c
		__attribute__((aligned(64))) = {.palette = 1};
	for (int i = 0; i < 8; i++) c.bytes[i] = 64, c.rows[i] = 16;
	__asm__ volatile("ldtilecfg %0" : : "m"(c));
	__asm__ volatile("tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3\n\t"
	             "tilezero %%tmm4\n\ttilezero %%tmm5\n\ttilezero %%tmm6\n\ttilezero %%tmm7" : : : "memory");
}
#define FOUR(op)                                                         \
	op " %tmm6, %tmm4, %tmm0\n\t" op " %tmm7, %tmm4, %tmm1\n\t"          \
	op " %tmm6, %tmm5, %tmm2\n\t" op " %tmm7, %tmm5, %tmm3"

static double amx(int kind, int64_t n) {
	tiles();
	if (kind == LIM_AMX_BF16)
		for (int64_t t = 0; t < n; t++) __asm__ volatile(FOUR("tdpbf16ps"));
	else
		for (int64_t t = 0; t < n; t++) __asm__ volatile(FOUR("tdpbssd"));
	__asm__ volatile("tilerelease");
	return 4.0 * 2 * 16 * 16 * (kind == LIM_AMX_BF16 ? 32 : 64) * n;
}

double lim_compute(int kind, int64_t n) {
	switch (kind) {
	case LIM_FMA_BASE: return base(n);
	case LIM_FMA_AVX2: return avx2(n);
	case LIM_FMA_AVX512: return avx512(n);
	case LIM_VNNI: return vnni(n);
	case LIM_AMX_BF16:
	case LIM_AMX_I8: return amx(kind, n);
	}
	return -1;
}

static float read_base(const char *p, size_t n) {
	__m128 s[8];
	for (int i = 0; i < 8; i++) s[i] = _mm_setzero_ps();
	for (size_t at = 0; at < n; at += 512)
		for (int i = 0; i < 32; i++) s[i & 7] = _mm_xor_ps(s[i & 7], _mm_load_ps((const float *)(p + at + 16 * i)));
	for (int i = 1; i < 8; i++) s[0] = _mm_xor_ps(s[0], s[i]);
	return _mm_cvtss_f32(s[0]);
}

float lim_read(const void *p, size_t n, int wide) {
	return wide == 2 ? read_avx512(p, n) : wide == 1 ? read_avx2(p, n) : read_base(p, n);
}

#elif defined(__aarch64__)
#include <arm_neon.h>

int lim_amx(void) { return -1; }

double lim_compute(int kind, int64_t n) {
	if (kind != LIM_FMA_BASE) return -1;
	float32x4_t x = vdupq_n_f32(0), a[16];
	for (int i = 0; i < 16; i++) a[i] = x;
	for (int64_t t = 0; t < n; t++)
		for (int i = 0; i < 16; i++) __asm__ volatile("fmla %0.4s, %1.4s, %1.4s" : "+w"(a[i]) : "w"(x));
	return 16.0 * 8 * n;
}

float lim_read(const void *p, size_t n, int wide) {
	(void)wide;
	uint32x4_t s[8];
	for (int i = 0; i < 8; i++) s[i] = vdupq_n_u32(0);
	for (size_t at = 0; at < n; at += 512)
		for (int i = 0; i < 32; i++)
			s[i & 7] = veorq_u32(s[i & 7], vld1q_u32((const uint32_t *)((const char *)p + at + 16 * i)));
	for (int i = 1; i < 8; i++) s[0] = veorq_u32(s[0], s[i]);
	return (float)vgetq_lane_u32(s[0], 0);
}
#endif
