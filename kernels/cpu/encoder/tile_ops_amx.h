// The instructions on tile registers that the encoder's products use. gcc 12 supports them in its assembler only.
#include "configure_amx.h"
#include "inline.h"

#define TILE_CONFIGURE(c) __asm__ volatile("ldtilecfg %0" ::"m"(c))
#define TILE_RELEASE() __asm__ volatile("tilerelease" ::)
#define TILE_ZERO(reg) __asm__ volatile("tilezero %%tmm" #reg ::)
#define TILE_LOAD(reg, p, stride) \
	__asm__ volatile("tileloadd (%0,%1,1), %%tmm" #reg ::"r"(p), "r"((int64_t)(stride)) : "memory")
#define TILE_STORE(reg, p, stride) \
	__asm__ volatile("tilestored %%tmm" #reg ", (%0,%1,1)" ::"r"(p), "r"((int64_t)(stride)) : "memory")
// Adds the products of registers a and b to register `to`: pairs of bfloat16, or groups of four signed bytes.
#define TILE_BF16(to, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #to ::)
#define TILE_I8(to, a, b) __asm__ volatile("tdpbssd %%tmm" #b ", %%tmm" #a ", %%tmm" #to ::)
