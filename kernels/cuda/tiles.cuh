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
	const void *data, *low;
	const float *terms; // l2: -1/2 norm^2, added to every value; else NULL
	int64_t n, from, to, padded;
};

// panel_of is panel i of a block's tile; what lies beyond the call repeats its last panel and is not looked at.
SLC_FN int64_t panel_of(const Side &s, int64_t first, int i) { return least(first + i, s.to - 1); }

// A multiplier has
//   kStageBytes   shared memory of a stage; there are kStages of them
//   load          starts copying step k of both sides to a stage
//   multiply      adds the products of a stage
//   finish        the values
//   row, column   of value i of a lane in its warp's 32 x 64

// Float32: a lane has 8 rows x 4 columns of either panel; chains of 64 products are summed apart.
struct MultiplyF32 {
	enum { kDepth = 16, kStages = 3, kSideBytes = kTileSide * kDepth * 4, kStageBytes = 2 * kSideBytes };
	float chain[kLaneValues], sum[kLaneValues];

	static SLC_FN int row(int lane, int i) { return lane / 8 * 8 + i % 32 / 4; }
	static SLC_FN int column(int lane, int i) { return i / 32 * 32 + lane % 8 * 4 + i % 4; }

	static SLC_FN void load_side(unsigned char *to, const Side &s, int64_t first, int64_t step) {
		for (int at = (int)threadIdx.x; at < kSideBytes / 16; at += kTileThreads) {
			const int panel = at / (kDepth * kPanel / 4), rest = at % (kDepth * kPanel / 4);
			const float *from = (const float *)s.data + (panel_of(s, first, panel) * s.padded + step * kDepth) * kPanel;
			copy16(to + at * 16, from + rest * 4);
		}
	}
	static SLC_FN void load(unsigned char *stage, const Side &rows, int64_t row, const Side &columns, int64_t column,
			int64_t step) {
		load_side(stage, rows, row, step);
		load_side(stage + kSideBytes, columns, column, step);
	}

	SLC_FN void begin() {
		SLC_UNROLL
		for (int i = 0; i < kLaneValues; i++) chain[i] = sum[i] = 0;
	}
	SLC_FN void multiply(const unsigned char *stage, int64_t step) {
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

// Bfloat16 by mma.m16n8k16: a lane has 4 rows x 8 columns of either panel. With three, each vector is the sum of two
// parts, of which the product of the second parts is left out; every 32 elements are a chain of their own, the small
// products first, because tensor cores round towards 0 at each instruction.
template <bool three> struct MultiplyBF16 {
	enum {
		kDepth = 32,
		kStages = three ? 2 : 4,
		kPartBytes = kTileSide * kDepth * 2,
		kParts = three ? 2 : 1,
		kStageBytes = 2 * kParts * kPartBytes
	};
	float chain[kLaneValues], sum[kLaneValues];

	static SLC_FN int row(int lane, int i) { return i / 4 % 2 * 16 + i % 4 / 2 * 8 + lane / 4; }
	static SLC_FN int column(int lane, int i) { return i / 8 * 8 + lane % 4 * 2 + i % 2; }

	// A row of a stage is four units of 16 bytes, which change places so that eight rows' units at the same place lie in
	// different banks.
	static SLC_FN int place(int row, int unit) { return row * 64 + ((unit ^ (row / 2 % 4)) * 16); }

	static SLC_FN void load_part(unsigned char *to, const void *data, const Side &s, int64_t first, int64_t step) {
		for (int at = (int)threadIdx.x; at < kPartBytes / 16; at += kTileThreads) {
			const int row = at / 4, unit = at % 4;
			const int64_t vector = panel_of(s, first, row / kPanel) * kPanel + row % kPanel;
			copy16(to + place(row, unit), (const uint16_t *)data + vector * s.padded + step * kDepth + unit * 8);
		}
	}
	static SLC_FN void load(unsigned char *stage, const Side &rows, int64_t row, const Side &columns, int64_t column,
			int64_t step) {
		load_part(stage, rows.data, rows, row, step);
		load_part(stage + kPartBytes, columns.data, columns, column, step);
		if (three) {
			load_part(stage + 2 * kPartBytes, rows.low, rows, row, step);
			load_part(stage + 3 * kPartBytes, columns.low, columns, column, step);
		}
	}

	SLC_FN void begin() {
		SLC_UNROLL
		for (int i = 0; i < kLaneValues; i++) chain[i] = sum[i] = 0;
	}
	// product adds the product of one part of the rows and one of the columns to the chains.
	SLC_FN void product(const unsigned char *x, const unsigned char *y) {
		const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
		SLC_UNROLL
		for (int k = 0; k < kDepth / 16; k++) {
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
					slc::multiply(chain + (n * 2 + m) * 4, a[m], b[0], b[1]);
					slc::multiply(chain + ((n + 1) * 2 + m) * 4, a[m], b[2], b[3]);
				}
			}
		}
	}
	SLC_FN void multiply(const unsigned char *stage, int64_t) {
		if (three) {
			product(stage, stage + 3 * kPartBytes);
			product(stage + 2 * kPartBytes, stage + kPartBytes);
		}
		product(stage, stage + kPartBytes);
		if (three) {
			SLC_UNROLL
			for (int i = 0; i < kLaneValues; i++) sum[i] += chain[i], chain[i] = 0;
		}
	}
	SLC_FN void finish(float v[kLaneValues]) {
		SLC_UNROLL
		for (int i = 0; i < kLaneValues; i++) v[i] = three ? sum[i] : chain[i];
	}
};

// tile_values computes a block's tile, whose first panels are row and column; each lane gets its values.
template <class M> SLC_FN void tile_values(float v[kLaneValues], const Side &rows, int64_t row, const Side &columns,
		int64_t column, unsigned char *shared) {
	M m;
	m.begin();
	const int64_t steps = rows.padded / M::kDepth;
	SLC_UNROLL
	for (int s = 0; s < M::kStages - 1; s++) {
		if (s < steps) M::load(shared + s * M::kStageBytes, rows, row, columns, column, s);
		copies_commit();
	}
	for (int64_t step = 0; step < steps; step++) {
		copies_wait<M::kStages - 2>();
		sync_block(); // the stage is there, and the one before it is not read any more
		const int64_t later = step + M::kStages - 1;
		if (later < steps)
			M::load(shared + later % M::kStages * M::kStageBytes, rows, row, columns, column, later);
		copies_commit();
		m.multiply(shared + step % M::kStages * M::kStageBytes, step);
	}
	copies_wait<0>();
	sync_block(); // shared memory may be used again
	m.finish(v);
	if (!rows.terms) return;
	const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
	const int64_t row_panel = panel_of(rows, row, warp / 2);
	SLC_UNROLL
	for (int i = 0; i < kLaneValues; i++) {
		const int c = M::column(lane, i);
		const int64_t column_panel = panel_of(columns, column, warp % 2 * 2 + c / kPanel);
		v[i] = v[i] + rows.terms[row_panel * kPanel + M::row(lane, i)] + columns.terms[column_panel * kPanel + c % kPanel];
	}
}

} // namespace slc
#endif
