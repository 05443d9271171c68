// The bounded tile kernels: tiles of 32 x 32 pairs, computed from packed panels (pack.h) and counted, or written to a
// matrix, while they are in the first-level cache. tiles.go defines the values.
#ifndef SLC_TILES_H
#define SLC_TILES_H

#include "pack.h"

enum { SLC_BRACKETS = 12, SLC_TILE = SLC_PANEL * SLC_PANEL };

// Maximum panels per side of a call: a pair's position has 16 bits per side, and counters are int32 lanes.
enum { SLC_MAX_PANELS = 2048 };

typedef struct {
	float value;
	uint32_t at; // (row - first row) << 16 | (column - first column)
} slc_entry;

// A side of a call: packed vectors. terms (l2) are added to every value; steps are for i16 and i8, sums for i8.
typedef struct {
	const void *data;
	const float *terms, *steps;
	const int32_t *sums; // columns: 128 * sum of the vector's codes
	int64_t n, from, to; // vectors; panels of the call
} slc_side;

// Entries that a count appends. A capacity of 0 requests none.
typedef struct {
	slc_entry *entries;
	int64_t count, capacity;
	int32_t full; // whether entries were lost
} slc_list;

// The parameters of a count; Count in tiles.go describes the fields. The lists are empty.
typedef struct {
	const float *low, *high;
	float min, max, margin;
	int32_t brackets, cross_group, best;
	const int32_t *own, *row_group, *column_group;
	float bin_low, bin_scale;
	int64_t *bins, n_bins;
	slc_list kept, other, all;
	float *best_other, *best_all; // per column of the call
} slc_counting;

// The same in the form of the kernels, with their results.
typedef struct {
	float low[SLC_BRACKETS], high[SLC_BRACKETS], min, max, margin;
	int32_t brackets, cross_group, best, l2;
	const int32_t *own, *row_group, *column_group;
	float bin_low, bin_scale, last_bin; // last_bin: a float of at most n_bins - 1
	int64_t *bins;
	slc_list kept, other, all;
	float *best_other, *best_all;            // per column of the call
	int64_t counted, above[SLC_BRACKETS];    // above: values >= low
	__int128 sum, sum2;                      // in units of 2^-30
	int32_t overflow;                        // whether a sum exceeded its range
} slc_counter;

typedef struct {
	float *out;
	int64_t stride;
	float factor;    // converts a value to a score
	int32_t l2;      // score = factor * sqrt(-2 value)
	int32_t stream;  // use stores that bypass the caches
} slc_writer;

typedef struct {
	slc_side rows, columns;
	int64_t dim, block; // block: row panels that stay in the second-level cache
	slc_counter *count; // one of the two
	slc_writer *write;
} slc_tiles;

// The functions per instruction set; they do not check their arguments.
typedef void slc_tiles_fn(const slc_tiles *t);

slc_tiles_fn slc_tiles_f32_scalar;
#if defined(__x86_64__)
slc_tiles_fn slc_tiles_f32_avx2, slc_tiles_f32_avx512, slc_tiles_i8_avx512vnni;
slc_tiles_fn slc_tiles_i16_avx2, slc_tiles_i16_avxvnni, slc_tiles_i16_avx512vnni;
slc_tiles_fn slc_tiles_f32_amx, slc_tiles_bf16x3_amx, slc_tiles_bf16_amx, slc_tiles_i8_amx;
#elif defined(__aarch64__)
slc_tiles_fn slc_tiles_f32_neon, slc_tiles_i8_dotprod, slc_tiles_i8_i8mm;
slc_tiles_fn slc_tiles_bf16x3_bf16, slc_tiles_bf16_bf16;
#endif

// A sum of 128 bits in two words.
typedef struct {
	int64_t hi;
	uint64_t lo;
} slc_sum128;

// sum and sum2 are added to the caller's values; the others are results of this call.
typedef struct {
	slc_sum128 sum, sum2;
	int64_t counted, kept, other, all, full, above[SLC_BRACKETS]; // full: bits 0 kept, 1 other, 2 all
} slc_found;

// slc_count and slc_matrix set count or write of the given tiles. They take structures by value: pointers to them would
// refer to Go memory that contains pointers.
int32_t slc_count(int32_t isa, int32_t dtype, slc_tiles t, slc_counting q, slc_found *found, slc_error *error);
int32_t slc_matrix(int32_t isa, int32_t dtype, slc_tiles t, slc_writer w, slc_error *error);

#endif
