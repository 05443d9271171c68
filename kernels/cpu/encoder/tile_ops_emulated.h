// The instructions of tile_ops_amx.h in C, bit for bit, for tests on machines without AMX, and in addition on machines
// with it. Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, the operation of TDPBF16PS,
// of TDPBSSD, and of the tile loads and stores.
//
// TDPBF16PS computes an element in two float32 chains starting from 0: the fused multiply-adds of the even and of the
// odd elements of the pairs, each rounded to nearest even; then the sum of both chains; then the register's element
// plus that. Every operand and result below 2^-126 becomes 0, whatever MXCSR says. TDPBSSD adds integers.
#include <immintrin.h>
#include <string.h>

#include "configure_amx.h"
#include "inline.h"

// A thread's tile registers.
static _Thread_local struct {
	amx_configuration shape;
	uint8_t data[8][16][64];
} tmm;

// A register that is not configured, and operands that do not fit, abort the program, as on a processor.
#define TILE_NEEDS(condition) \
	do { \
		if (!(condition)) __builtin_trap(); \
	} while (0)

INLINE void tile_configure(const amx_configuration *c) {
	TILE_NEEDS(c->palette == 1 && c->start == 0);
	for (int i = 0; i < 8; i++)
		TILE_NEEDS(c->rows[i] > 0 && c->rows[i] <= 16 && c->columns[i] > 0 && c->columns[i] <= 64 &&
		           c->columns[i] % 4 == 0);
	tmm.shape = *c;
	memset(tmm.data, 0, sizeof tmm.data);
}

INLINE void tile_load(int reg, const void *p, int64_t stride) {
	TILE_NEEDS(tmm.shape.palette);
	memset(tmm.data[reg], 0, sizeof tmm.data[reg]);
	for (int i = 0; i < tmm.shape.rows[reg]; i++)
		memcpy(tmm.data[reg][i], (const uint8_t *)p + i * stride, tmm.shape.columns[reg]);
}

INLINE void tile_store(int reg, void *p, int64_t stride) {
	TILE_NEEDS(tmm.shape.palette);
	for (int i = 0; i < tmm.shape.rows[reg]; i++)
		memcpy((uint8_t *)p + i * stride, tmm.data[reg][i], tmm.shape.columns[reg]);
}

INLINE void tile_fits(int to, int a, int b) {
	const amx_configuration *c = &tmm.shape;
	TILE_NEEDS(c->palette && to != a && to != b && a != b);
	TILE_NEEDS(c->rows[to] == c->rows[a] && c->columns[to] == c->columns[b] && c->columns[a] == 4 * c->rows[b]);
}

// bf16_products is called while MXCSR flushes denormals to 0; it is a separate function so that no other arithmetic is
// moved there.
static __attribute__((noinline)) void bf16_products(uint8_t (*to)[64], uint8_t (*a)[64], uint8_t (*b)[64], int rows,
		int pairs) {
	const __m256i upper = _mm256_set1_epi32((int)0xffff0000);
	for (int i = 0; i < rows; i++) {
		__m256 even[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()}, odd[2] = {even[0], even[0]};
		for (int k = 0; k < pairs; k++) {
			uint32_t x;
			memcpy(&x, a[i] + 4 * k, 4);
			const __m256 first = _mm256_castsi256_ps(_mm256_set1_epi32((int)(x << 16)));
			const __m256 second = _mm256_castsi256_ps(_mm256_set1_epi32((int)(x & 0xffff0000)));
			for (int j = 0; j < 2; j++) {
				const __m256i y = _mm256_loadu_si256((const __m256i *)(b[k] + 32 * j));
				even[j] = _mm256_fmadd_ps(first, _mm256_castsi256_ps(_mm256_slli_epi32(y, 16)), even[j]);
				odd[j] = _mm256_fmadd_ps(second, _mm256_castsi256_ps(_mm256_and_si256(y, upper)), odd[j]);
			}
		}
		for (int j = 0; j < 2; j++) {
			float *sum = (float *)(to[i] + 32 * j);
			_mm256_storeu_ps(sum, _mm256_add_ps(_mm256_loadu_ps(sum), _mm256_add_ps(even[j], odd[j])));
		}
	}
}

INLINE void tile_bf16(int to, int a, int b) {
	enum { NEAREST_WITHOUT_DENORMALS = 0x9fc0 }; // all exceptions masked, FTZ, DAZ
	tile_fits(to, a, b);
	TILE_NEEDS(tmm.shape.columns[to] == 64); // the only width that bf16_products supports
	const unsigned int before = _mm_getcsr();
	_mm_setcsr(NEAREST_WITHOUT_DENORMALS);
	bf16_products(tmm.data[to], tmm.data[a], tmm.data[b], tmm.shape.rows[to], tmm.shape.rows[b]);
	_mm_setcsr(before);
}

INLINE void tile_i8(int to, int a, int b) {
	tile_fits(to, a, b);
	TILE_NEEDS(tmm.shape.columns[to] == 64);
	for (int i = 0; i < tmm.shape.rows[to]; i++)
		for (int j = 0; j < 64; j += 16) { // four outputs, each with two sums of pairs
			__m256i pairs = _mm256_setzero_si256();
			for (int k = 0; k < tmm.shape.rows[b]; k++) {
				int32_t four;
				memcpy(&four, tmm.data[a][i] + 4 * k, 4);
				const __m256i x = _mm256_cvtepi8_epi16(_mm_set1_epi32(four));
				const __m128i y = _mm_loadu_si128((const __m128i *)(tmm.data[b][k] + j));
				pairs = _mm256_add_epi32(pairs, _mm256_madd_epi16(x, _mm256_cvtepi8_epi16(y)));
			}
			int32_t sum[4], pair[8];
			memcpy(sum, tmm.data[to][i] + j, sizeof sum);
			memcpy(pair, &pairs, sizeof pair);
			for (int o = 0; o < 4; o++) sum[o] += pair[2 * o] + pair[2 * o + 1];
			memcpy(tmm.data[to][i] + j, sum, sizeof sum);
		}
}

#define TILE_CONFIGURE(c) tile_configure(&(c))
#define TILE_RELEASE() (tmm.shape.palette = 0)
#define TILE_ZERO(reg) memset(tmm.data[reg], 0, sizeof tmm.data[reg])
#define TILE_LOAD(reg, p, stride) tile_load(reg, p, stride)
#define TILE_STORE(reg, p, stride) tile_store(reg, p, stride)
#define TILE_BF16(to, a, b) tile_bf16(to, a, b)
#define TILE_I8(to, a, b) tile_i8(to, a, b)
