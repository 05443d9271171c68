// For files that are as fast with -O2 as with -O3, which takes 1.5 times the compile time, or twice for tiles_scalar.c
// (measured on x86 only). The checks define SLC_LIGHTLY and choose the optimisation themselves (tools/check).
#if defined(__x86_64__) && !defined(SLC_LIGHTLY)
#pragma GCC optimize("O2")
#endif
