// The shapes of AMX tile registers.
#ifndef SLC_AMX_H
#define SLC_AMX_H

#include <stdint.h>

// amx_configuration is the operand of ldtilecfg: bytes per row and number of rows of each tile register.
typedef struct {
	uint8_t palette, start, zero[14];
	uint16_t columns[16];
	uint8_t rows[16];
} amx_configuration;

// amx_whole configures all eight tile registers with 16 rows of 64 bytes.
static inline __attribute__((always_inline)) amx_configuration amx_whole(void) {
	amx_configuration c = {.palette = 1};
	for (int i = 0; i < 8; i++) c.columns[i] = 64, c.rows[i] = 16;
	return c;
}

static inline __attribute__((always_inline)) void amx_configure(void) {
	amx_configuration c __attribute__((aligned(64))) = amx_whole();
	__asm__ volatile("ldtilecfg %0" ::"m"(c));
}

#endif
