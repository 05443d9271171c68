// What every kernel needs that is written as functions for the compiler to take apart.
#ifndef SLC_INLINE_H
#define SLC_INLINE_H

#define INLINE static inline __attribute__((always_inline))
// OUTLINE is for functions that many places call, where a call costs little and each copy would take the compiler time.
#define OUTLINE static __attribute__((noinline, unused))
#define PASTE2(a, b) a##b
#define PASTE(a, b) PASTE2(a, b)

#endif
