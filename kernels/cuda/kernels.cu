// The entry points. Every parameter has eight bytes, which is what drivers' launches through gorgonia.org/cu take.
#include "count.cuh"
#include "ladder/ladder.cuh"
#include "matrix.cuh"
#include "scan.cuh"
#include "scores.cuh"
#include "tiles_sm90.cuh"
#include "transpose.cuh"

using namespace slc;

#define PACK(name, format)                                                                                          \
	SLC_KERNEL(kPackThreads)                                                                                        \
	name(const float *rows, int64_t stride, const double *norms, const int32_t *order, int64_t n, int64_t dim,      \
		int64_t padded, int64_t from, int64_t to, int64_t base, double scale, void *out, void *low, float *terms,   \
		PackFound *found) {                                                                                         \
		pack<format>(rows, stride, norms, order, n, dim, padded, from, to, base, scale, out, low, terms, found);    \
	}

#define COUNT(name, since, multiplier)                                                                              \
	SLC_KERNEL(kTileThreads)                                                                                        \
	name(const void *rows, const void *rows_low, const float *row_terms, int64_t n_rows, int64_t row0, int64_t row1, \
		const void *columns, const void *columns_low, const float *column_terms, int64_t n_columns, int64_t column0, \
		int64_t column1, int64_t padded, int64_t format, const Look *look, Found *found, const int32_t *own,        \
		const int32_t *row_group, const int32_t *column_group, uint32_t *best_other, uint32_t *best_all,            \
		Entry *kept, int64_t kept_room, Entry *other, int64_t other_room, Entry *all, int64_t all_room,             \
		uint64_t *bins, int64_t n_bins) {                                                                           \
		const Side left = {rows, rows_low, row_terms, n_rows, row0, row1, padded};                                  \
		const Side right = {columns, columns_low, column_terms, n_columns, column0, column1, padded};               \
		const Counting c = {look, found, own, row_group, column_group, best_other, best_all, kept, other, all,      \
			kept_room, other_room, all_room, bins, n_bins};                                                         \
		if constexpr (SLC_SINCE(since)) count<multiplier>(format, left, right, c);                                  \
	}

#define MATRIX(name, since, multiplier)                                                                             \
	SLC_KERNEL(kTileThreads)                                                                                        \
	name(const void *rows, const void *rows_low, const float *row_terms, int64_t n_rows, int64_t row0, int64_t row1, \
		const void *columns, const void *columns_low, const float *column_terms, int64_t n_columns, int64_t column0, \
		int64_t column1, int64_t padded, int64_t format, int64_t metric, double factor, float *out, int64_t stride) { \
		const Side left = {rows, rows_low, row_terms, n_rows, row0, row1, padded};                                  \
		const Side right = {columns, columns_low, column_terms, n_columns, column0, column1, padded};               \
		if constexpr (SLC_SINCE(since)) matrix<multiplier>(format, left, right, metric, factor, out, stride);       \
	}

// The same for sm_90a, with maps of both sides for the copies; blocks stay.
#define COUNT_RING(name, multiplier)                                                                                \
	SLC_KERNEL(kRingThreads)                                                                                        \
	name(const void *rows, const void *rows_low, const float *row_terms, int64_t n_rows, int64_t row0, int64_t row1, \
		const void *columns, const void *columns_low, const float *column_terms, int64_t n_columns, int64_t column0, \
		int64_t column1, int64_t padded, const void *row_maps, const void *column_maps, const Look *look,           \
		Found *found, const int32_t *own, const int32_t *row_group, const int32_t *column_group,                    \
		uint32_t *best_other, uint32_t *best_all, Entry *kept, int64_t kept_room, Entry *other, int64_t other_room, \
		Entry *all, int64_t all_room, uint64_t *bins, int64_t n_bins) {                                             \
		const Tiles t = {{rows, rows_low, row_terms, n_rows, row0, row1, padded},                                   \
			{columns, columns_low, column_terms, n_columns, column0, column1, padded},                              \
			(const unsigned char *)row_maps, (const unsigned char *)column_maps};                                   \
		const Counting c = {look, found, own, row_group, column_group, best_other, best_all, kept, other, all,      \
			kept_room, other_room, all_room, bins, n_bins};                                                         \
		count_ring<multiplier>(t, c);                                                                               \
	}

#define MATRIX_RING(name, multiplier)                                                                               \
	SLC_KERNEL(kRingThreads)                                                                                        \
	name(const void *rows, const void *rows_low, const float *row_terms, int64_t n_rows, int64_t row0, int64_t row1, \
		const void *columns, const void *columns_low, const float *column_terms, int64_t n_columns, int64_t column0, \
		int64_t column1, int64_t padded, const void *row_maps, const void *column_maps, int64_t metric,             \
		double factor, float *out, int64_t stride) {                                                                \
		const Tiles t = {{rows, rows_low, row_terms, n_rows, row0, row1, padded},                                   \
			{columns, columns_low, column_terms, n_columns, column0, column1, padded},                              \
			(const unsigned char *)row_maps, (const unsigned char *)column_maps};                                   \
		matrix_ring<multiplier>(t, metric, factor, out, stride);                                                    \
	}

PACK(slc_pack_f32, kF32)
PACK(slc_pack_bf16, kBF16)
PACK(slc_pack_bf16x3, kBF16x3)
PACK(slc_pack_i8, kI8)
PACK(slc_pack_fp8, kE4M3)
COUNT(slc_count_f32, 0, MultiplyF32)
COUNT(slc_count_tensor, 800, AnyTensor)
COUNT(slc_count_bf16x3, 800, MultiplyTensor<ElementBF16x3>)
MATRIX(slc_matrix_f32, 0, MultiplyF32)
MATRIX(slc_matrix_tensor, 800, AnyTensor)
MATRIX(slc_matrix_bf16x3, 800, MultiplyTensor<ElementBF16x3>)
COUNT_RING(slc_count_bf16_sm90, RingTensor<ElementBF16>)
COUNT_RING(slc_count_bf16x3_sm90, RingTensor<ElementBF16x3>)
COUNT_RING(slc_count_i8_sm90, RingTensor<ElementI8>)
COUNT_RING(slc_count_fp8_sm90, RingTensor<ElementE4M3>)
MATRIX_RING(slc_matrix_bf16_sm90, RingTensor<ElementBF16>)
MATRIX_RING(slc_matrix_bf16x3_sm90, RingTensor<ElementBF16x3>)
MATRIX_RING(slc_matrix_i8_sm90, RingTensor<ElementI8>)
MATRIX_RING(slc_matrix_fp8_sm90, RingTensor<ElementE4M3>)

SLC_KERNEL(kScoreSide *kScoreSide)
slc_scores(const float *a, int64_t stride_a, const double *norms_a, int64_t n_a, const float *b, int64_t stride_b,
	const double *norms_b, int64_t n_b, int64_t dim, int64_t metric, double *out, int64_t out_stride) {
	scores(a, stride_a, norms_a, n_a, b, stride_b, norms_b, n_b, dim, metric, out, out_stride);
}

SLC_KERNEL(kPairThreads)
slc_pairs(const float *a, int64_t stride_a, const double *norms_a, const int32_t *rows_a, const float *b,
	int64_t stride_b, const double *norms_b, const int32_t *rows_b, int64_t n, int64_t dim, int64_t metric,
	double *out) {
	pairs(a, stride_a, norms_a, rows_a, b, stride_b, norms_b, rows_b, n, dim, metric, out);
}

SLC_KERNEL(kScanThreads)
slc_code(const float *y, int64_t dim, const double *turned, int64_t first, int64_t n, int64_t head_units,
	int64_t tail_units, double slop, void *head, void *tail, RowCode *head_rows, RowCode *tail_rows, float *terms,
	CodeFound *found) {
	code(y, dim, turned, first, n, head_units, tail_units, slop, (unsigned char *)head, (unsigned char *)tail,
		head_rows, tail_rows, terms, found);
}

#define CODED                                                                                                       \
	const void *head, const void *tail, const RowCode *head_rows, const RowCode *tail_rows, const float *terms,     \
		int64_t rows, int64_t head_units, int64_t tail_units
#define CODED_ROWS                                                                                                  \
	{(const unsigned char *)head, (const unsigned char *)tail, head_rows, tail_rows, terms, rows, head_units,       \
		tail_units}

#define SCAN(name, max_queries)                                                                                    \
	SLC_KERNEL(kScanThreads)                                                                                        \
	name(CODED, const ScanQuery *queries, const Word4 *codes, int64_t n, int64_t from, int64_t to, uint32_t *lists,  \
		int64_t room, uint64_t *counts) {                                                                           \
		const Coded c = CODED_ROWS;                                                                                 \
		scan<max_queries>(c, queries, codes, n, from, to, lists, room, counts);                                    \
	}

SCAN(slc_scan_1, 1)
SCAN(slc_scan_8, kScanQueries)

SLC_KERNEL(kScanThreads)
slc_sift(CODED, const ScanQuery *queries, const Word4 *codes, const uint32_t *lists, const float *lifts, int64_t room,
	const uint64_t *counts, uint32_t *found_lists, uint64_t *found_counts, int64_t places) {
	const Coded c = CODED_ROWS;
	sift(c, queries, codes, lists, lifts, room, counts, found_lists, found_counts, places);
}

SLC_KERNEL(kScanThreads)
slc_rescore(const float *a, int64_t stride_a, const double *norms_a, const float *b, int64_t stride_b,
	const double *norms_b, int64_t dim, int64_t metric, const ScanQuery *queries, const uint32_t *lists, int64_t room,
	const uint32_t *found_lists, const uint64_t *found_counts, int64_t places, Scored *out, uint64_t *out_counts) {
	rescore(a, stride_a, norms_a, b, stride_b, norms_b, dim, metric, queries, lists, room, found_lists, found_counts,
		places, out, out_counts);
}

SLC_KERNEL(kTransposeSide *kTransposeRows)
slc_transpose(const float *in, int64_t stride, int64_t rows, int64_t columns, float *out) {
	transpose(in, stride, rows, columns, out);
}

SLC_KERNEL(kStepSide *kStepSide)
slc_ladder_plain(const float *a, const float *b, int64_t rows, int64_t columns, int64_t dim, float *out) {
	ladder_plain(a, b, rows, columns, dim, out);
}

SLC_KERNEL(kStepSide *kStepSide)
slc_ladder_shared(const float *a, const float *b, int64_t rows, int64_t columns, int64_t dim, float *out) {
	ladder_shared(a, b, rows, columns, dim, out);
}

// All of them, for the host.
#define SLC_KERNELS(X)                                                                                              \
	X(slc_pack_f32) X(slc_pack_bf16) X(slc_pack_bf16x3) X(slc_pack_i8) X(slc_pack_fp8) X(slc_count_f32)             \
	X(slc_count_tensor) X(slc_count_bf16x3) X(slc_matrix_f32) X(slc_matrix_tensor) X(slc_matrix_bf16x3)             \
	X(slc_count_bf16_sm90) X(slc_count_bf16x3_sm90) X(slc_count_i8_sm90) X(slc_count_fp8_sm90)                      \
	X(slc_matrix_bf16_sm90) X(slc_matrix_bf16x3_sm90) X(slc_matrix_i8_sm90) X(slc_matrix_fp8_sm90) X(slc_scores)    \
	X(slc_pairs) X(slc_code) X(slc_scan_1) X(slc_scan_8) X(slc_sift) X(slc_rescore) X(slc_transpose)                \
	X(slc_ladder_plain) X(slc_ladder_shared)
