// The tiles of AMX; a file that includes it defines DTYPE and NAME. Four tile registers hold 32 x 32 sums, four the
// operands. While they multiply, the vector units count the previous tile. gcc 12 supports the instructions in its
// assembler only.
#pragma GCC target("avx512f,avx512dq,avx512vl,avx2,fma,bmi,popcnt")
#define POSITIONS
#include "configure_amx.h"
#include "tiles_avx512.h"
#include "tiles_body.h"
#include "tiles_pending_body.h"
#include "tiles_i8_avx512.h"

#define TILE_LOAD(reg, p) __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #reg ::"r"(p), "r"((int64_t)64))
#define TILE_STORE(reg, p) __asm__ volatile("tilestored %%tmm" #reg ", (%0,%1,1)" \
	::"r"(p), "r"((int64_t)(4 * SLC_PANEL)) : "memory")
#define MULTIPLY(op, to, a, b) __asm__ volatile(op " %%tmm" #b ", %%tmm" #a ", %%tmm" #to ::)

enum {
	STEP_BYTES = DTYPE == SLC_F32 ? 6144 : DTYPE == SLC_BF16X3 ? 4096 : 2048,
	STEP_LENGTH = DTYPE == SLC_I8 ? 64 : 32
};

// STEP multiplies STEP_LENGTH elements of 32 x 32 pairs. Loads are placed between multiplications that do not depend on
// them, and F0 and F1, the vector units' work on halves of a row, between those.
#define STEP_X3(F0, F1) \
	TILE_LOAD(4, a); \
	TILE_LOAD(6, b + 2048); \
	MULTIPLY("tdpbf16ps", 0, 4, 6); \
	TILE_LOAD(7, b + 3072); \
	MULTIPLY("tdpbf16ps", 1, 4, 7); \
	F0; \
	TILE_LOAD(5, a + 1024); \
	MULTIPLY("tdpbf16ps", 2, 5, 6); \
	TILE_LOAD(6, b); \
	MULTIPLY("tdpbf16ps", 3, 5, 7); \
	F1; \
	TILE_LOAD(7, b + 1024); \
	MULTIPLY("tdpbf16ps", 0, 4, 6); \
	MULTIPLY("tdpbf16ps", 2, 5, 6); \
	F0; \
	MULTIPLY("tdpbf16ps", 1, 4, 7); \
	TILE_LOAD(4, a + 2048); \
	MULTIPLY("tdpbf16ps", 3, 5, 7); \
	F1; \
	TILE_LOAD(5, a + 3072); \
	MULTIPLY("tdpbf16ps", 0, 4, 6); \
	MULTIPLY("tdpbf16ps", 1, 4, 7); \
	F0; \
	MULTIPLY("tdpbf16ps", 2, 5, 6); \
	MULTIPLY("tdpbf16ps", 3, 5, 7); \
	F1;

// Six of the nine products of three parts each: high·low, high·high, low·high, middle·high, middle·middle, high·middle.
#define STEP_X6(F0, F1) \
	TILE_LOAD(4, a); \
	TILE_LOAD(6, b + 4096); \
	MULTIPLY("tdpbf16ps", 0, 4, 6); \
	TILE_LOAD(7, b + 5120); \
	MULTIPLY("tdpbf16ps", 1, 4, 7); \
	TILE_LOAD(5, a + 1024); \
	MULTIPLY("tdpbf16ps", 2, 5, 6); \
	TILE_LOAD(6, b); \
	MULTIPLY("tdpbf16ps", 3, 5, 7); \
	F0; \
	TILE_LOAD(7, b + 1024); \
	MULTIPLY("tdpbf16ps", 0, 4, 6); \
	MULTIPLY("tdpbf16ps", 2, 5, 6); \
	MULTIPLY("tdpbf16ps", 1, 4, 7); \
	TILE_LOAD(4, a + 4096); \
	MULTIPLY("tdpbf16ps", 3, 5, 7); \
	F1; \
	TILE_LOAD(5, a + 5120); \
	MULTIPLY("tdpbf16ps", 0, 4, 6); \
	MULTIPLY("tdpbf16ps", 1, 4, 7); \
	TILE_LOAD(4, a + 2048); \
	MULTIPLY("tdpbf16ps", 2, 5, 6); \
	MULTIPLY("tdpbf16ps", 3, 5, 7); \
	F0; \
	TILE_LOAD(5, a + 3072); \
	MULTIPLY("tdpbf16ps", 0, 4, 6); \
	MULTIPLY("tdpbf16ps", 1, 4, 7); \
	MULTIPLY("tdpbf16ps", 2, 5, 6); \
	TILE_LOAD(6, b + 2048); \
	MULTIPLY("tdpbf16ps", 3, 5, 7); \
	F1; \
	TILE_LOAD(7, b + 3072); \
	MULTIPLY("tdpbf16ps", 0, 4, 6); \
	MULTIPLY("tdpbf16ps", 2, 5, 6); \
	MULTIPLY("tdpbf16ps", 1, 4, 7); \
	TILE_LOAD(4, a); \
	MULTIPLY("tdpbf16ps", 3, 5, 7); \
	F0; \
	TILE_LOAD(5, a + 1024); \
	MULTIPLY("tdpbf16ps", 0, 4, 6); \
	MULTIPLY("tdpbf16ps", 1, 4, 7); \
	MULTIPLY("tdpbf16ps", 2, 5, 6); \
	MULTIPLY("tdpbf16ps", 3, 5, 7); \
	F1;

#define STEP(op, F0, F1) \
	TILE_LOAD(4, a); \
	TILE_LOAD(6, b); \
	MULTIPLY(op, 0, 4, 6); \
	TILE_LOAD(7, b + 1024); \
	F0; \
	MULTIPLY(op, 1, 4, 7); \
	F1; \
	TILE_LOAD(5, a + 1024); \
	F0; \
	MULTIPLY(op, 2, 5, 6); \
	F1; \
	F0; \
	MULTIPLY(op, 3, 5, 7); \
	F1;

INLINE void store(float *tile) {
	TILE_STORE(0, tile);
	TILE_STORE(1, tile + 16);
	TILE_STORE(2, tile + 16 * SLC_PANEL);
	TILE_STORE(3, tile + 16 * SLC_PANEL + 16);
}

INLINE void product(const slc_tiles *t, float *tile, int64_t row, int64_t column, pending *before, const int brackets,
                    const int best, const int write) {
	const int64_t steps = (t->dim + STEP_LENGTH - 1) / STEP_LENGTH, panel = steps * STEP_BYTES;
	// Every other tile runs backwards: the columns read last are still in the first-level cache.
	const int64_t start = row % 2 ? panel - STEP_BYTES : 0, step = row % 2 ? -STEP_BYTES : STEP_BYTES;
	const uint8_t *a = (const uint8_t *)t->rows.data + row * panel + start;
	const uint8_t *b = (const uint8_t *)t->columns.data + column * panel + start;
	// Meanwhile each row prefetches a part of the next panel of columns to the second-level cache.
	const int64_t rows = t->block < t->rows.to - t->rows.from ? t->block : t->rows.to - t->rows.from;
	const int64_t lines = (panel / 64 + rows * steps - 1) / (rows * steps); // per step
	const uint8_t *ahead = (const uint8_t *)t->columns.data + (column + 1) * panel
		+ (row - t->rows.from) % t->block * steps * lines * 64;
	progress w;
	start_pending(&w, before);
	__asm__ volatile("tilezero %%tmm0\ntilezero %%tmm1\ntilezero %%tmm2\ntilezero %%tmm3" ::);
	for (int64_t k = 0; k < steps; k++) {
#define FIRST advance_half(t, before, &w, 0, brackets, best, write)
#define SECOND advance_half(t, before, &w, 1, brackets, best, write)
		if (DTYPE == SLC_F32) {
			STEP_X6(FIRST, SECOND)
		} else if (DTYPE == SLC_BF16X3) {
			STEP_X3(FIRST, SECOND)
		} else if (DTYPE == SLC_BF16) {
			STEP("tdpbf16ps", FIRST, SECOND)
		} else {
			STEP("tdpbusd", FIRST, SECOND)
		}
		for (int64_t i = 0; i < lines; i++, ahead += 64) __builtin_prefetch(ahead, 0, 2);
		a += step, b += step;
	}
	finish_pending(t, before, &w, brackets, best, write);
	store(tile);
	if (DTYPE == SLC_I8) to_floats(t, tile, row, column);
	with_terms(t, tile, row, column);
}

#define BEGIN amx_configure()
#define END __asm__ volatile("tilerelease" ::)
#include "tiles_loop_body.h"
