// Packing: vectors into panels of 32, in the layout of the tile kernels.
//
// Layouts of a panel of 32 vectors; elements beyond the dimension and vectors beyond the last are 0:
//   f32      both sides       [k][32] float; AMX: as bf16x3, three parts a step, which hold all of a float's bits
//   bf16     left             [k/32][2 halves][16 vectors][32 k]          bfloat16, an AMX A tile each
//            right            [k/32][2 halves][16 pairs of k][16 vectors][2] bfloat16, an AMX B tile each
//   bf16x3   as bf16, each step of 32 k followed by the same of the low halves
//   i8       left             [k/64][2 halves][16 vectors][64 k]          uint8, code + 128
//            right            [k/64][2 halves][16 fours of k][16 vectors][4] int8
//   i16      both sides       [k/2][32][2 k]                              int16: two codes take the place of a float
// arm64, both sides:
//   i8       SDOT             [k/4][32][4 k]                              int8
//            SMMLA            [k/8][32][8 k]                              int8
//   bf16     BFMMLA           [k/4][32][4 k]                              bfloat16
//   bf16x3   as bf16, each step followed by the same of the low halves
#ifndef SLC_PACK_H
#define SLC_PACK_H

#include "slc.h"

enum { SLC_PANEL = 32 };

// The number formats, numbered as in kernels.DType.
enum { SLC_F32 = 0, SLC_BF16X3 = 1, SLC_BF16 = 2, SLC_I8 = 3, SLC_I16 = 4, SLC_DTYPES = 5 };

typedef struct {
	const float *rows;
	const double *norms; // cosine: norms of the rows, else NULL
	const int32_t *order;
	int64_t stride, n, dim, from, to;
	double scale;
	void *data;
	float *terms, *steps;
	int32_t *sums;
	int32_t right;
	double norm, residual, low; // results
	int32_t is_short;           // bfloat16: whether some vector has 0 < norm < 2^-45
} slc_packing;
typedef void slc_pack_fn(slc_packing *p);

slc_pack_fn slc_pack_f32_scalar;
#if defined(__x86_64__)
slc_pack_fn slc_pack_f32_avx2, slc_pack_f32_avx512, slc_pack_i8_avx512vnni;
slc_pack_fn slc_pack_i16_avx2, slc_pack_i16_avx512vnni;
slc_pack_fn slc_pack_f32_amx, slc_pack_bf16x3_amx, slc_pack_bf16_amx;
#elif defined(__aarch64__)
slc_pack_fn slc_pack_i8_dotprod, slc_pack_i8_i8mm, slc_pack_bf16x3_bf16, slc_pack_bf16_bf16;
#endif

// slc_panel_bytes returns the size of a panel of the format, or -1 if the instruction set has no such tiles.
int64_t slc_panel_bytes(int32_t isa, int32_t dtype, int64_t dim);

// slc_pack fills the panels [p.from, p.to). Results: largest norm, residual and norm of low halves, is_short.
int32_t slc_pack(int32_t isa, int32_t dtype, slc_packing p, double *found, slc_error *error);

#endif
