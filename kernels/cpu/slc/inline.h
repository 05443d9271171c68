// Macros for kernels composed of inlined functions with pasted names.
#ifndef SLC_INLINE_H
#define SLC_INLINE_H

#define INLINE static inline __attribute__((always_inline))
// OUTLINE is for functions with many callers, where a call is cheap and inlined copies would slow compilation.
#define OUTLINE static __attribute__((noinline, unused))
#define PASTE2(a, b) a##b
#define PASTE(a, b) PASTE2(a, b)

#endif
