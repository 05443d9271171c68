// What sm_90a adds to device.cuh: copies of boxes by the tensor memory accelerator (TMA), barriers in shared memory
// that count the bytes of such copies, products by a group of four warps (wgmma), registers by role. nvcc compiles it
// to instructions (PTX ISA 9.0: cp.async.bulk.tensor, mbarrier, wgmma.mma_async, setmaxnreg), g++ to host/hopper.h.
#ifndef SLC_HOPPER_CUH
#define SLC_HOPPER_CUH

#include "device.cuh"

#ifdef __CUDACC__
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define SLC_HOPPER 1
#else
#define SLC_HOPPER 0 // other architectures have the kernels' names with nothing in them
#endif
#else
#define SLC_HOPPER 1
#endif

#ifdef __CUDACC__
#if SLC_HOPPER
namespace slc {

SLC_FN uint32_t shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

// A barrier of n arrivals. One thread makes barriers, barriers_made lets the copies' side see them, a barrier of the
// block lets the threads.
SLC_FN void barrier_make(uint64_t *b, int n) {
	asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(shared_address(b)), "r"(n) : "memory");
}
SLC_FN void barriers_made() { asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory"); }
SLC_FN void barrier_arrive(uint64_t *b) {
	asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];\n" ::"r"(shared_address(b)) : "memory");
}
// barrier_expect arrives, and the phase does not end before so many bytes have been copied.
SLC_FN void barrier_expect(uint64_t *b, int bytes) {
	asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;\n" ::"r"(shared_address(b)),
	             "r"(bytes)
	             : "memory");
}
// barrier_wait waits for the end of the phase of that parity: 0 is the first's.
SLC_FN void barrier_wait(uint64_t *b, uint32_t parity) {
	asm volatile("{\n.reg .pred done;\nagain:\n"
	             "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], %1;\n"
	             "@!done bra again;\n}\n" ::"r"(shared_address(b)),
	             "r"(parity)
	             : "memory");
}

// map_ready lets copies use a map that lies in global memory, once a block.
SLC_FN void map_ready(const void *map) {
	asm volatile("fence.proxy.tensormap::generic.acquire.sys [%0], 128;\n" ::"l"(map) : "memory");
}
// copy_box starts the copy of a map's box whose first element is x of row y; what lies beyond the matrix is 0. The
// destination is at a multiple of 1024.
SLC_FN void copy_box(void *shared, const void *map, int x, int y, uint64_t *barrier) {
	asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
	             "[%1, {%2, %3}], [%4];\n" ::"r"(shared_address(shared)),
	             "l"(map), "r"(x), "r"(y), "r"(shared_address(barrier))
	             : "memory");
}

SLC_FN uint64_t address_field(const void *shared) { return (shared_address(shared) & 0x3ffff) >> 4; }

// products_begin orders the registers of products behind what was done with them. products_end ends a group of
// products, products_wait<n> waits until at most n groups are under way.
SLC_FN void products_begin() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }
SLC_FN void products_end() { asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory"); }
template <int n> SLC_FN void products_wait() {
	asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(n) : "memory");
}
// touched keeps the compiler from moving uses of the values over the instructions around it.
template <int n> SLC_FN void touched(float (&c)[n]) {
	SLC_UNROLL
	for (int i = 0; i < n; i++) asm volatile("" : "+f"(c[i])::"memory");
}
template <int n> SLC_FN void touched(int (&c)[n]) {
	SLC_UNROLL
	for (int i = 0; i < n; i++) asm volatile("" : "+r"(c[i])::"memory");
}

#define SLC_8(how, c, i)                                                                                            \
	how(c[i]), how(c[i + 1]), how(c[i + 2]), how(c[i + 3]), how(c[i + 4]), how(c[i + 5]), how(c[i + 6]), how(c[i + 7])
#define SLC_64(how, c)                                                                                              \
	SLC_8(how, c, 0), SLC_8(how, c, 8), SLC_8(how, c, 16), SLC_8(how, c, 24), SLC_8(how, c, 32), SLC_8(how, c, 40), \
		SLC_8(how, c, 48), SLC_8(how, c, 56)
#define SLC_REGISTERS_64                                                                                            \
	"{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, "     \
	"%23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, " \
	"%45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "

// multiply_group_bf16 starts a product of 64 x 16 and 16 x 128 bfloat16, which described matrices in shared memory hold; it
// is added to c, or replaces it. Value 4 j + e of a lane is in row 16 warp + lane / 4 + 8 (e / 2) and column
// 8 j + 2 (lane % 4) + e % 2.
SLC_FN void multiply_group_bf16(float *c, uint64_t a, uint64_t b, int add) {
	asm volatile(
		"{\n.reg .pred add;\nsetp.ne.b32 add, %66, 0;\n"
		"wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " SLC_REGISTERS_64
		"%64, %65, add, 1, 1, 0, 0;\n}\n"
		: SLC_64("+f", c)
		: "l"(a), "l"(b), "r"(add));
}
// The same for 64 x 32 and 32 x 128 signed bytes, and floats of eight bits.
SLC_FN void multiply_group_i8(int *c, uint64_t a, uint64_t b, int add) {
	asm volatile(
		"{\n.reg .pred add;\nsetp.ne.b32 add, %66, 0;\n"
		"wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 " SLC_REGISTERS_64
		"%64, %65, add;\n}\n"
		: SLC_64("+r", c)
		: "l"(a), "l"(b), "r"(add));
}
SLC_FN void multiply_group_e4m3(float *c, uint64_t a, uint64_t b, int add) {
	asm volatile(
		"{\n.reg .pred add;\nsetp.ne.b32 add, %66, 0;\n"
		"wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 " SLC_REGISTERS_64
		"%64, %65, add, 1, 1;\n}\n"
		: SLC_64("+f", c)
		: "l"(a), "l"(b), "r"(add));
}

// The four warps of a group give registers back, or take more, so that each thread has n of them.
template <int n> SLC_FN void registers_down() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(n)); }
template <int n> SLC_FN void registers_up() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(n)); }

// sync_group is a barrier of one group of four warps; each has a number of its own, from 1 on.
SLC_FN void sync_group(int number) { asm volatile("bar.sync %0, 128;\n" ::"r"(number) : "memory"); }

} // namespace slc
#endif
#else
#include "host/hopper.h"
#endif

#if SLC_HOPPER
namespace slc {

// described is the descriptor of a matrix whose rows are 128 bytes of shared memory, swizzled as copy_box leaves them:
// groups of 8 rows are 1024 bytes apart, and the 16-byte unit u of row r of a group lies at place u ^ r. It may begin
// at a multiple of 32 bytes within the first row.
SLC_FN uint64_t described(const void *shared) {
	const uint64_t leading = 1, stride = 1024 >> 4, swizzle128 = 1; // with this swizzle, leading means nothing
	return address_field(shared) | leading << 16 | stride << 32 | swizzle128 << 62;
}

} // namespace slc
#endif
#endif
