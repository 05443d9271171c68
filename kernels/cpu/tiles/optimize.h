// For files that are as fast with -O2 as with -O3, which takes the compiler half as long again, or twice as long for
// tiles_scalar.c (measured on x86 only). The checks define SLC_LIGHTLY and choose for themselves (tools/check).
#if defined(__x86_64__) && !defined(SLC_LIGHTLY)
#pragma GCC optimize("O2")
#endif
