// The shape of AMX tile registers that all kernels here use.
#ifndef SLC_AMX_H
#define SLC_AMX_H

#include <stdint.h>

// amx_configure makes all eight tile registers 16 rows of 64 bytes.
static inline __attribute__((always_inline)) void amx_configure(void) {
	struct {
		uint8_t palette, start, zero[14];
		uint16_t columns[16];
		uint8_t rows[16];
	} c __attribute__((aligned(64))) = {.palette = 1};
	for (int i = 0; i < 8; i++) c.columns[i] = 64, c.rows[i] = 16;
	__asm__ volatile("ldtilecfg %0" ::"m"(c));
}

#endif
