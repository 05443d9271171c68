// Tiles: the values of 128 rows x 128 columns by a block of eight warps. A warp multiplies 32 rows (one panel) by 64
// columns (two), and each of its lanes ends with 64 of the values, 32 of either panel. Count and matrix (count.cuh,
// matrix.cuh) take them from there; the matrix of all pairs is never in memory.
#ifndef SLC_TILES_CUH
#define SLC_TILES_CUH

#include "pack.cuh"

namespace slc {

enum {
	kTilePanels = 4, // a side of a block's tile
	kTileSide = kTilePanels * kPanel,
	kTileThreads = 256,
	kLaneValues = 64
};

// A side of a call: packed vectors, and the panels of the call.
struct Side {
	const void *data, *low; // low: second parts, or the steps of codes
	const float *terms; // l2: -1/2 norm^2, added to every value; else NULL
	int64_t n, from, to, padded;
};

// panel_of is panel i of a block's tile; what lies beyond the call repeats its last panel and is not looked at.
SLC_FN int64_t panel_of(const Side &s, int64_t first, int i) { return min(first + i, s.to - 1); }

// two_panels is 2, which the compiler does not know: it would write the code of the second panel out as well.
SLC_FN int two_panels(const Side &s) { return s.padded > 0 ? 2 : 0; }

// A multiplier has
//   kDepth        elements of a step
//   kStageBytes   shared memory of a stage, which holds a step of both sides; there are kStages of them
//   kCopies       copies of 16 bytes that a thread makes for a stage
//   source        where copy i of a thread begins in step 0 and where it goes in a stage; a step later it begins
//                 kStepBytes later
//   multiply      adds the products of a stage
//   finish        the values, without the steps of codes
//   kSteps        whether there are such
//   kSums         into how many parts of a lane's 32 values sums are split, so that a part's place does not depend on
//                 where the tile begins
//   kRows, kColumns of a panel that a lane has values of, 32 in all: value i, of 0 to 31, is in its row_of(i) and
//                 column_of(i), which are row(lane, .) and column(lane, .) of the panel

// Float32: a lane has 8 rows x 4 columns of either panel; chains of 64 products are summed apart.
struct MultiplyF32 {
	enum { kDepth = 16, kStages = 3, kSideBytes = kTileSide * kDepth * 4, kStageBytes = 2 * kSideBytes };
	float chain[kLaneValues], sum[kLaneValues];

	enum { kRows = 8, kColumns = 4, kSums = 1, kSteps = 0 };
	static SLC_FN int row_of(int i) { return i / 4; }
	static SLC_FN int column_of(int i) { return i % 4; }
	static SLC_FN int row(int lane, int r) { return lane / 8 * 8 + r; }
	static SLC_FN int column(int lane, int c) { return lane % 8 * 4 + c; }

	enum { kSideCopies = kSideBytes / 16 / kTileThreads, kCopies = 2 * kSideCopies, kStepBytes = kDepth * kPanel * 4 };
	static SLC_FN const unsigned char *source(int i, const Side &rows, int64_t row, const Side &columns, int64_t column,
			uint32_t *to) {
		const bool left = i < kSideCopies;
		const Side &s = left ? rows : columns;
		const uint32_t at = (uint32_t)(i % kSideCopies) * kTileThreads + threadIdx.x, unit = at % (kDepth * kPanel / 4);
		*to = (left ? 0 : kSideBytes) + at * 16;
		const int64_t panel = panel_of(s, left ? row : column, (int)(at / (kDepth * kPanel / 4)));
		return (const unsigned char *)s.data + (panel * s.padded * kPanel + unit * 4) * 4;
	}

	SLC_FN void begin() {
		SLC_UNROLL
		for (int i = 0; i < kLaneValues; i++) chain[i] = sum[i] = 0;
	}
	SLC_FN void multiply(const unsigned char *stage, int step) {
		const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
		const float *x = (const float *)stage + warp / 2 * kDepth * kPanel + lane / 8 * 8;
		const float *y = (const float *)(stage + kSideBytes) + warp % 2 * 2 * kDepth * kPanel + lane % 8 * 4;
		SLC_UNROLL
		for (int k = 0; k < kDepth; k++) {
			float a[8], b[8];
			SLC_UNROLL
			for (int i = 0; i < 8; i++) a[i] = x[k * kPanel + i];
			SLC_UNROLL
			for (int j = 0; j < 8; j++) b[j] = y[(j / 4 * kDepth + k) * kPanel + j % 4];
			SLC_UNROLL
			for (int i = 0; i < kLaneValues; i++) chain[i] += a[i % 32 / 4] * b[i / 32 * 4 + i % 4];
		}
		if (step % (64 / kDepth) == 64 / kDepth - 1) add_chain();
	}
	SLC_FN void add_chain() {
		SLC_UNROLL
		for (int i = 0; i < kLaneValues; i++) sum[i] += chain[i], chain[i] = 0;
	}
	SLC_FN void finish(float v[kLaneValues]) {
		add_chain();
		SLC_UNROLL
		for (int i = 0; i < kLaneValues; i++) v[i] = sum[i];
	}
};

// The elements of tensor cores: their bytes; into how many parts a vector is split; whether the products of a stage are a
// chain of their own, which is added by the CUDA cores (instructions round sums towards 0, those of e4m3 far above
// float32's last place); whether vectors have steps. An instruction takes 32 bytes of 16 rows and of 8 columns.
struct ElementBF16 {
	enum { kBytes = 2, kParts = 1, kChains = 0, kSteps = 0 };
	typedef float Sum;
	static SLC_FN void multiply(Sum c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
		multiply_bf16(c, a, b0, b1);
	}
};
struct ElementBF16x3 : ElementBF16 {
	enum { kParts = 2, kChains = 1 };
};
struct ElementI8 {
	enum { kBytes = 1, kParts = 1, kChains = 0, kSteps = 1 };
	typedef int Sum;
	static SLC_FN void multiply(Sum c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) { multiply_i8(c, a, b0, b1); }
};
struct ElementE4M3 {
	enum { kBytes = 1, kParts = 1, kChains = 1, kSteps = 1 };
	typedef float Sum;
	static SLC_FN void multiply(Sum c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
		multiply_e4m3(c, a, b0, b1);
	}
};

// Tensor cores, by mma: a lane has 4 rows x 8 columns of either panel. A row of a stage has 64 bytes. Of two parts the
// product of the second ones is left out, and the small products come first.
template <class E> struct MultiplyTensor {
	enum {
		kDepth = 64 / E::kBytes,
		kStages = E::kParts == 2 ? 2 : 4,
		kPartBytes = kTileSide * 64,
		kParts = E::kParts,
		kStageBytes = 2 * kParts * kPartBytes
	};
	typename E::Sum chain[kLaneValues];
	float sum[kLaneValues];

	enum { kRows = 4, kColumns = 8, kSums = 1, kSteps = E::kSteps };
	static SLC_FN int row_of(int i) { return i / 2 % 4; }
	static SLC_FN int column_of(int i) { return i / 8 * 2 + i % 2; }
	static SLC_FN int row(int lane, int r) { return r * 8 + lane / 4; }
	static SLC_FN int column(int lane, int c) { return c / 2 * 8 + lane % 4 * 2 + c % 2; }

	// A row of a stage is four units of 16 bytes, which change places so that eight rows' units at the same place lie
	// in different banks.
	static SLC_FN int place(int row, int unit) { return row * 64 + ((unit ^ (row / 2 % 4)) * 16); }

	enum { kPartCopies = kPartBytes / 16 / kTileThreads, kCopies = 2 * kParts * kPartCopies, kStepBytes = 64 };
	// The parts of a stage: rows, columns, and of what is split also their second parts.
	static SLC_FN const unsigned char *source(int i, const Side &rows, int64_t row, const Side &columns, int64_t column,
			uint32_t *to) {
		const int part = i / kPartCopies;
		const bool left = part % 2 == 0;
		const Side &s = left ? rows : columns;
		const uint32_t at = (uint32_t)(i % kPartCopies) * kTileThreads + threadIdx.x, r = at / 4, unit = at % 4;
		*to = (uint32_t)(part * kPartBytes + place((int)r, (int)unit));
		const int64_t vector = panel_of(s, left ? row : column, (int)(r / kPanel)) * kPanel + r % kPanel;
		const void *data = part < 2 ? s.data : s.low;
		return (const unsigned char *)data + vector * s.padded * E::kBytes + unit * 16;
	}

	SLC_FN void begin() {
		SLC_UNROLL
		for (int i = 0; i < kLaneValues; i++) chain[i] = sum[i] = 0;
	}
	// product adds the product of one part of the rows and one of the columns to the chains.
	SLC_FN void product(const unsigned char *x, const unsigned char *y) {
		const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
		SLC_UNROLL
		for (int k = 0; k < 2; k++) {
			uint32_t a[2][4];
			SLC_UNROLL
			for (int m = 0; m < 2; m++)
				load_matrices(a[m], x + place(warp / 2 * 32 + m * 16 + lane % 16, 2 * k + lane / 16));
			SLC_UNROLL
			for (int n = 0; n < 8; n += 2) {
				uint32_t b[4];
				load_matrices(b, y + place(warp % 2 * 64 + n * 8 + lane % 8 + lane / 16 * 8, 2 * k + lane / 8 % 2));
				SLC_UNROLL
				for (int m = 0; m < 2; m++) {
					E::multiply(chain + (n * 2 + m) * 4, a[m], b[0], b[1]);
					E::multiply(chain + ((n + 1) * 2 + m) * 4, a[m], b[2], b[3]);
				}
			}
		}
	}
	SLC_FN void multiply(const unsigned char *stage, int) {
		if (E::kParts == 2) {
			product(stage, stage + 3 * kPartBytes);
			product(stage + 2 * kPartBytes, stage + kPartBytes);
		}
		product(stage, stage + kPartBytes);
		if (E::kChains) {
			SLC_UNROLL
			for (int i = 0; i < kLaneValues; i++) sum[i] += (float)chain[i], chain[i] = 0;
		}
	}
	SLC_FN void finish(float v[kLaneValues]) {
		SLC_UNROLL
		for (int i = 0; i < kLaneValues; i++) v[i] = E::kChains ? sum[i] : (float)chain[i];
	}
};

// load starts the copies of a step.
template <class M> SLC_FN void load(unsigned char *stage, const unsigned char *(&from)[M::kCopies],
		const uint32_t (&to)[M::kCopies]) {
	SLC_UNROLL
	for (int i = 0; i < M::kCopies; i++) {
		copy16(stage + to[i], from[i]);
		from[i] += M::kStepBytes;
	}
}

// has_pairs tells whether a warp's part of a block's tile has a pair of the call.
SLC_FN bool has_pairs(const Side &rows, int64_t row, const Side &columns, int64_t column) {
	const int warp = (int)threadIdx.x / 32;
	return row + warp / 2 < rows.to && column + warp % 2 * 2 < columns.to;
}

// tile_values computes a block's tile, whose first panels are row and column; each lane gets its values. Warps without
// pairs copy with the others and multiply nothing.
template <class M> SLC_FN void tile_values(float v[kLaneValues], const Side &rows, int64_t row, const Side &columns,
		int64_t column, unsigned char *shared) {
	const bool multiplies = has_pairs(rows, row, columns, column);
	M m;
	m.begin();
	const int steps = (int)(rows.padded / M::kDepth);
	const unsigned char *from[M::kCopies];
	uint32_t to[M::kCopies];
	SLC_UNROLL
	for (int i = 0; i < M::kCopies; i++) from[i] = M::source(i, rows, row, columns, column, &to[i]);
	SLC_UNROLL
	for (int s = 0; s < M::kStages - 1; s++) {
		if (s < steps) load<M>(shared + s * M::kStageBytes, from, to);
		copies_commit();
	}
	unsigned char *read = shared, *write = shared + (M::kStages - 1) * M::kStageBytes;
	unsigned char *const end = shared + M::kStages * M::kStageBytes;
	for (int step = 0; step < steps; step++) {
		copies_wait<M::kStages - 2>();
		sync_block(); // the stage is there, and the one before it is not read any more
		if (step + M::kStages - 1 < steps) load<M>(write, from, to);
		copies_commit();
		if (multiplies) m.multiply(read, step);
		read = read + M::kStageBytes == end ? shared : read + M::kStageBytes;
		write = write + M::kStageBytes == end ? shared : write + M::kStageBytes;
	}
	copies_wait<0>();
	sync_block(); // shared memory may be used again
	m.finish(v);
	const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
	const int64_t left = panel_of(rows, row, warp / 2) * kPanel;
	SLC_UNROLL
	for (int p = 0; p < 2; p++) {
		const int64_t right = panel_of(columns, column, warp % 2 * 2 + p) * kPanel;
		if (M::kSteps) {
			const float *steps = (const float *)rows.low + left, *others = (const float *)columns.low + right;
			SLC_UNROLL
			for (int i = 0; i < 32; i++)
				v[p * 32 + i] = mul(v[p * 32 + i],
					mul(steps[M::row(lane, M::row_of(i))], others[M::column(lane, M::column_of(i))]));
		}
		if (!rows.terms) continue;
		const float *terms = rows.terms + left, *others = columns.terms + right;
		SLC_UNROLL
		for (int i = 0; i < 32; i++)
			v[p * 32 + i] = v[p * 32 + i] + terms[M::row(lane, M::row_of(i))] + others[M::column(lane, M::column_of(i))];
	}
}

// AnyTensor has the layout of values of all elements of one part, which share the code behind the multiplication.
struct AnyTensor : MultiplyTensor<ElementBF16> {};

// values_of is tile_values; of AnyTensor, in the format that is given.
template <class M> SLC_FN void values_of(int64_t, float v[kLaneValues], const Side &rows, int64_t row,
		const Side &columns, int64_t column, unsigned char *shared) {
	tile_values<M>(v, rows, row, columns, column, shared);
}
template <> SLC_FN void values_of<AnyTensor>(int64_t format, float v[kLaneValues], const Side &rows, int64_t row,
		const Side &columns, int64_t column, unsigned char *shared) {
	if (format == kBF16) tile_values<MultiplyTensor<ElementBF16>>(v, rows, row, columns, column, shared);
	if (format == kI8) tile_values<MultiplyTensor<ElementI8>>(v, rows, row, columns, column, shared);
#if SLC_SINCE(890)
	if (format == kE4M3) tile_values<MultiplyTensor<ElementE4M3>>(v, rows, row, columns, column, shared);
#endif
}

} // namespace slc
#endif
