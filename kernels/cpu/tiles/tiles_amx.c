//go:build amd64 && !noamx

// AMX: four tile registers hold 32 x 32 sums, four the operands. While they multiply, the vector units count the
// previous tile. gcc 12 supports the instructions in its assembler only.
#pragma GCC target("avx512f,avx512dq,avx512vl,avx2,fma,bmi,popcnt")
#include "configure_amx.h"
#include "tiles_positions_avx512.h"
#include "tiles_body.h"
#include "tiles_i8_avx512.h"

#define TILE_LOAD(reg, p) __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #reg ::"r"(p), "r"((int64_t)64))
#define TILE_STORE(reg, p) __asm__ volatile("tilestored %%tmm" #reg ", (%0,%1,1)" \
	::"r"(p), "r"((int64_t)(4 * SLC_PANEL)) : "memory")
#define MULTIPLY(op, to, a, b) __asm__ volatile(op " %%tmm" #b ", %%tmm" #a ", %%tmm" #to ::)

INLINE int64_t step_bytes(const int dtype) { return dtype == SLC_F32 ? 6144 : dtype == SLC_BF16X3 ? 4096 : 2048; }
INLINE int64_t step_count(const int dtype, int64_t dim) { return dtype == SLC_I8 ? (dim + 63) / 64 : (dim + 31) / 32; }

// STEP multiplies 32 (i8: 64) elements of 32 x 32 pairs. Loads are placed between multiplications that do not depend on
// them, and FILL, the vector units' work, between those.
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

#define STEP(op, FILL) \
	TILE_LOAD(4, a); \
	TILE_LOAD(6, b); \
	MULTIPLY(op, 0, 4, 6); \
	TILE_LOAD(7, b + 1024); \
	MULTIPLY(op, 1, 4, 7); \
	FILL; \
	TILE_LOAD(5, a + 1024); \
	MULTIPLY(op, 2, 5, 6); \
	FILL; \
	MULTIPLY(op, 3, 5, 7); \
	FILL;

INLINE void store(float *tile) {
	TILE_STORE(0, tile);
	TILE_STORE(1, tile + 16);
	TILE_STORE(2, tile + 16 * SLC_PANEL);
	TILE_STORE(3, tile + 16 * SLC_PANEL + 16);
}

// tiles iterates over all tiles; the previous one is counted while the next is multiplied.
INLINE void tiles(const slc_tiles *t, const int brackets, const int best, const int dtype, const int write) {
	float buffer[2][SLC_TILE] __attribute__((aligned(64)));
	const int64_t steps = step_count(dtype, t->dim), panel = steps * step_bytes(dtype);
	slc_counter *c = t->count;
	amx_configure();
	for (int64_t r0 = t->rows.from; r0 < t->rows.to; r0 += t->block) {
		int64_t r1 = r0 + t->block < t->rows.to ? r0 + t->block : t->rows.to;
		for (int64_t column = t->columns.from; column < t->columns.to; column++) {
			exclusion f;
			strip s;
			if (!write) {
				f = exclusion_of(t, column);
				begin_strip(t, &s, column);
			}
			// Meanwhile the next panel of columns is prefetched to the second-level cache, some cache lines per step.
			const int64_t lines = (panel / 64 + (r1 - r0) * steps - 1) / ((r1 - r0) * steps);
			const uint8_t *ahead = (const uint8_t *)t->columns.data + (column + 1) * panel;
			const float *pending = NULL; // the previous tile, of row `row - 1`
			int current = 0;
			for (int64_t row = r0; row <= r1; row++) {
				int done = 0; // rows of the pending tile
				uint32_t in = 0; // what count_vector found in a half of a row
				if (row < r1) {
					// Every other tile runs backwards: the columns read last are still in the first-level cache.
					const int64_t start = row % 2 ? panel - step_bytes(dtype) : 0, step = row % 2 ? -step_bytes(dtype)
						: step_bytes(dtype);
					const uint8_t *a = (const uint8_t *)t->rows.data + row * panel + start;
					const uint8_t *b = (const uint8_t *)t->columns.data + column * panel + start;
					__asm__ volatile("tilezero %%tmm0\ntilezero %%tmm1\ntilezero %%tmm2\ntilezero %%tmm3" ::);
					for (int64_t k = 0; k < steps; k++) {
#define HALF \
	if (pending && done < SLC_PANEL && !write) in = count_vector(t, &s, pending, done, 0, brackets, best, 0);
#define REST \
	if (pending && done < SLC_PANEL) { \
		if (write) write_row(t, pending, done, row - 1, column); \
		else keep(t, &s, pending, done, in | count_vector(t, &s, pending, done, 1, brackets, best, 0)); \
		if (!write && c->bins) add_row_to_histogram(c, pending + done * SLC_PANEL, 0); \
		done++; \
	}
#define FILL \
	if (pending && done < SLC_PANEL) { \
		if (write) write_row(t, pending, done, row - 1, column); \
		else count_row(t, &s, pending, done, brackets, best, 0); \
		if (!write && c->bins) add_row_to_histogram(c, pending + done * SLC_PANEL, 0); \
		done++; \
	}
						if (dtype == SLC_F32) {
							STEP_X6(HALF, REST)
						} else if (dtype == SLC_BF16X3) {
							STEP_X3(HALF, REST)
						} else if (dtype == SLC_BF16) {
							STEP("tdpbf16ps", FILL)
						} else {
							STEP("tdpbusd", FILL)
						}
						for (int64_t i = 0; i < lines; i++, ahead += 64) __builtin_prefetch(ahead, 0, 2);
						a += step, b += step;
					}
				}
				if (pending) {
					for (; done < SLC_PANEL; done++) {
						if (write) write_row(t, pending, done, row - 1, column);
						else count_row(t, &s, pending, done, brackets, best, 0);
						if (!write && c->bins) add_row_to_histogram(c, pending + done * SLC_PANEL, 0);
					}
					if (!write) end_tile(t, &s, pending);
					pending = NULL;
				}
				if (row == r1) break;
				float *tile = buffer[current];
				store(tile);
				if (dtype == SLC_I8) to_floats(t, tile, row, column);
				with_terms(t, tile, row, column);
				if (write && !is_whole(t, row, column)) {
					write_partial(t, tile, row, column);
					continue;
				}
				if (!write) {
					begin_tile(t, &s, row);
					if (may_exclude(t, &f, row)) {
						count_excluding(t, &s, tile, row, column, brackets);
						end_tile(t, &s, tile);
						continue;
					}
					c->counted += SLC_TILE;
				}
				pending = tile;
				current ^= 1;
			}
			if (!write) end_strip(t, &s);
		}
	}
	__asm__ volatile("tilerelease" ::);
}

#define TILES_AMX(name, dtype) \
	void slc_tiles_##name##_amx(const slc_tiles *t) { \
		if (t->write) tiles(t, 0, 0, dtype, 1); \
		else VARIANTS(tiles, t, dtype, 0); \
	}

TILES_AMX(f32, SLC_F32)
TILES_AMX(bf16x3, SLC_BF16X3)
TILES_AMX(bf16, SLC_BF16)
TILES_AMX(i8, SLC_I8)
