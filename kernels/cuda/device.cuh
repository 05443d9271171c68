// What the kernels use of CUDA, in one place: nvcc compiles it to instructions, and g++ to the emulation of
// host/emulate.h, so that the same kernels run where there is no GPU.
#ifndef SLC_DEVICE_CUH
#define SLC_DEVICE_CUH

#include <stdint.h>

#ifdef __CUDACC__
#define SLC_FN __device__ __forceinline__
#define SLC_KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads, 1)
#define SLC_SHARED __shared__
extern __shared__ __align__(1024) unsigned char slc_dynamic[];
#define SLC_UNROLL _Pragma("unroll")
#define SLC_TEXT(x) #x
#define SLC_UNROLL_BY(n) _Pragma(SLC_TEXT(unroll n))

namespace slc {

SLC_FN void sync_block() { __syncthreads(); }
SLC_FN void sync_warp() { __syncwarp(); }
template <class T> SLC_FN T shuffle_xor(T v, int mask) { return __shfl_xor_sync(0xffffffffu, v, mask); }
template <class T> SLC_FN T shuffle(T v, int lane) { return __shfl_sync(0xffffffffu, v, lane); }
SLC_FN uint32_t ballot(bool b) { return __ballot_sync(0xffffffffu, b); }
SLC_FN int count_bits(uint32_t x) { return __popc(x); }
SLC_FN int first_bit(uint32_t x) { return __ffs((int)x) - 1; }
SLC_FN float bits_to_float(uint32_t x) { return __uint_as_float(x); }
SLC_FN uint32_t float_to_bits(float x) { return __float_as_uint(x); }
SLC_FN uint64_t double_to_bits(double x) { return (uint64_t)__double_as_longlong(x); }

// Products and sums of doubles that must not be fused (canonical scores of l2).
SLC_FN double mul(double x, double y) { return __dmul_rn(x, y); }
SLC_FN double add(double x, double y) { return __dadd_rn(x, y); }
SLC_FN float mul(float x, float y) { return __fmul_rn(x, y); }
SLC_FN float square_root(float x) { return __fsqrt_rn(x); }

SLC_FN uint64_t atomic_add(uint64_t *p, uint64_t v) {
	return atomicAdd((unsigned long long *)p, (unsigned long long)v);
}
SLC_FN uint64_t atomic_max(uint64_t *p, uint64_t v) {
	return atomicMax((unsigned long long *)p, (unsigned long long)v);
}
SLC_FN uint32_t atomic_max(uint32_t *p, uint32_t v) { return atomicMax((unsigned int *)p, v); }
SLC_FN uint32_t atomic_add32(uint32_t *p, uint32_t v) { return atomicAdd((unsigned int *)p, v); }
SLC_FN uint32_t atomic_or(uint32_t *p, uint32_t v) { return atomicOr((unsigned int *)p, v); }

// copy16 starts a copy of 16 bytes from global to shared memory; both are aligned. copies_commit ends a group of
// copies, copies_wait<n> waits until at most n groups are under way. GPUs before sm_80 copy at once.
SLC_FN void copy16(void *shared, const void *global) {
#if __CUDA_ARCH__ >= 800
	uint32_t at = (uint32_t)__cvta_generic_to_shared(shared);
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(at), "l"(global) : "memory");
#else
	*(uint4 *)shared = *(const uint4 *)global;
#endif
}
SLC_FN void copies_commit() {
#if __CUDA_ARCH__ >= 800
	asm volatile("cp.async.commit_group;\n" ::: "memory");
#endif
}
template <int n> SLC_FN void copies_wait() {
#if __CUDA_ARCH__ >= 800
	asm volatile("cp.async.wait_group %0;\n" ::"n"(n) : "memory");
#endif
}

// Word4 is 16 bytes, at a multiple of 16. load_once reads one that nobody will read again soon.
struct __align__(16) Word4 {
	int x, y, z, w;
};
SLC_FN Word4 load_once(const Word4 *p) {
	const int4 v = __ldcs((const int4 *)p);
	const Word4 w = {v.x, v.y, v.z, v.w};
	return w;
}

// dot4 adds the products of four signed bytes to c.
SLC_FN int dot4(int a, int b, int c) { return __dp4a(a, b, c); }

// load_matrices reads four matrices of 8 rows of 16 bytes: lane l gives the address of row l % 8 of matrix l / 8, and gets
// of matrix m, in r[m], the four bytes from 4 (l % 4) on of row l / 4.
SLC_FN void load_matrices(uint32_t r[4], const void *row) {
#if __CUDA_ARCH__ >= 750
	uint32_t at = (uint32_t)__cvta_generic_to_shared(row);
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
	             : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
	             : "r"(at)
	             : "memory");
#endif
}

// multiply_bf16 adds the product of a 16 x 16 and a 16 x 8 matrix of bfloat16 to c, in the layout of mma.m16n8k16.
SLC_FN void multiply_bf16(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
#if __CUDA_ARCH__ >= 800
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
	             "{%0, %1, %2, %3};\n"
	             : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
	             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

// multiply_i8 is multiply_bf16 for a 16 x 32 and a 32 x 8 matrix of signed bytes, whose sums are exact; multiply_e4m3 for
// floats of eight bits (e4m3), whose sums are of fewer bits than float32 has.
SLC_FN void multiply_i8(int c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
#if __CUDA_ARCH__ >= 800
	asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
	             "{%0, %1, %2, %3};\n"
	             : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
	             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}
SLC_FN void multiply_e4m3(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
#if __CUDA_ARCH__ >= 890
	asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
	             "{%0, %1, %2, %3};\n"
	             : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
	             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

} // namespace slc
// SLC_SINCE tells whether the architecture that is compiled for has instructions that came with that one. Kernels that
// need them have nothing in them elsewhere.
#ifdef __CUDA_ARCH__
#define SLC_SINCE(arch) (__CUDA_ARCH__ >= (arch))
#else
#define SLC_SINCE(arch) 1
#endif
#else
#include "host/emulate.h"
#define SLC_SINCE(arch) 1
#endif

namespace slc {

// The metrics, as kernels.Metric numbers them.
enum { kCosine = 0, kIP = 1, kL2 = 2 };

// to_bf16 rounds to the nearest bfloat16, ties to even. x is finite.
SLC_FN uint16_t to_bf16(float x) {
	uint32_t bits = float_to_bits(x);
	return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}
SLC_FN float from_bf16(uint16_t x) { return bits_to_float((uint32_t)x << 16); }

// Floats in the order of unsigned integers, so that atomic_max serves them; NaN is not used.
SLC_FN uint32_t ordered(float x) {
	uint32_t b = float_to_bits(x);
	return b & 0x80000000u ? ~b : b | 0x80000000u;
}
SLC_FN float unordered(uint32_t b) { return bits_to_float(b & 0x80000000u ? b & 0x7fffffffu : ~b); }

template <class T> SLC_FN T min(T a, T b) { return a < b ? a : b; }
template <class T> SLC_FN T max(T a, T b) { return a > b ? a : b; }

SLC_FN double warp_sum(double x) {
	for (int mask = 16; mask > 0; mask /= 2) x = add(x, shuffle_xor(x, mask));
	return x;
}
SLC_FN double warp_largest(double x) {
	for (int mask = 16; mask > 0; mask /= 2) {
		const double other = shuffle_xor(x, mask);
		if (other > x) x = other;
	}
	return x;
}
SLC_FN int warp_total(int x) {
	for (int mask = 16; mask > 0; mask /= 2) x += shuffle_xor(x, mask);
	return x;
}

} // namespace slc
#endif
