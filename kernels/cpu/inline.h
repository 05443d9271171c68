// What every kernel needs that is written as functions for the compiler to take apart.
#ifndef SLC_INLINE_H
#define SLC_INLINE_H

#define INLINE static inline __attribute__((always_inline))
#define PASTE2(a, b) a##b
#define PASTE(a, b) PASTE2(a, b)

#endif
