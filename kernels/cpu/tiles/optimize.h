// For files that are as fast with -O2 as with -O3, which takes 1.5 times the compile time, or twice for tiles_scalar.c
// (measured on x86; the loops of products are the same instructions on arm64). The checks define SLC_LIGHTLY and choose
// the optimisation themselves (tools/check). On arm64, gcc 12 would load operands early and move sums to memory.
#if defined(__aarch64__)
#pragma GCC optimize("no-schedule-insns")
#endif
#if !defined(SLC_LIGHTLY)
#pragma GCC optimize("O2")
#endif
