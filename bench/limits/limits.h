// The loops that package limits times. Each runs on the calling thread and allocates nothing.
#ifndef SLUICE_LIMITS_H
#define SLUICE_LIMITS_H
#include <stddef.h>
#include <stdint.h>

// What lim_compute repeats, in registers only.
enum {
	LIM_FMA_BASE,   // fp32 multiply-add of the compiler's baseline: SSE2 mul + add, NEON fmla
	LIM_FMA_AVX2,   // vfmadd231ps ymm
	LIM_FMA_AVX512, // vfmadd231ps zmm
	LIM_VNNI,       // vpdpbusd zmm
	LIM_AMX_BF16,   // tdpbf16ps
	LIM_AMX_I8,     // tdpbssd
};

// lim_amx asks the kernel for the tile registers; 0 means that they may be used.
int lim_amx(void);

// lim_compute runs the loop of a kind that the CPU has, and returns the operations done (a
// multiply-add counts two), or −1 for a kind that this build lacks.
double lim_compute(int kind, int64_t iterations);

// lim_read reads n bytes at p (64-byte aligned, n a multiple of 512) with the widest loads that
// wide (0 = baseline, 1 = AVX2, 2 = AVX-512) allows, and returns something that depends on them.
float lim_read(const void *p, size_t n, int wide);
#endif
