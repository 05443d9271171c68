// Tiles for sm_90a: blocks stay and take one tile after the other. One thread asks for copies (TMA); two groups of four
// warps take the tiles in turns, so that one multiplies (wgmma) while the other looks at its values. Steps of all tiles
// go through one ring of stages, in the order of tiles.
#ifndef SLC_TILES_SM90_CUH
#define SLC_TILES_SM90_CUH

#include "count.cuh"
#include "hopper.cuh"
#include "matrix.cuh"

namespace slc {

enum {
	kGroupThreads = 128,  // the group that copies comes first, then those that multiply
	kGroups = 2,          // that multiply
	kRingThreads = (1 + kGroups) * kGroupThreads,
	kBoxRows = 64,        // of a copy: 64 rows of 128 bytes
	kBoxRowBytes = 128,
	kBoxBytes = kBoxRows * kBoxRowBytes,
	kMapBytes = 256,      // the maps of a set: of its vectors, and of their second parts
	kTileColumns = 128
};

// Tiles of a call.
struct Tiles {
	Side rows, columns;
	const unsigned char *row_maps, *column_maps;
};

#if SLC_HOPPER
SLC_FN void multiply_in(ElementBF16, float *c, uint64_t a, uint64_t b, int add) { multiply_group_bf16(c, a, b, add); }
SLC_FN void multiply_in(ElementI8, int *c, uint64_t a, uint64_t b, int add) { multiply_group_i8(c, a, b, add); }
SLC_FN void multiply_in(ElementE4M3, float *c, uint64_t a, uint64_t b, int add) { multiply_group_e4m3(c, a, b, add); }

// Elements without chains (tiles.cuh) with 128 x 128 pairs a tile, or those with chains with 64 x 128, whose sums take the
// other half of the registers. A lane has 4 rows x 8 columns of 32 columns, or 2 rows x 16 columns of 64: 32 values in any
// case. As in MultiplyTensor, every 64 bytes of a vector are a chain of their own, small products first.
template <class E> struct RingTensor {
	static constexpr bool chains = E::kChains != 0;
	enum {
		kDepth = kBoxRowBytes / E::kBytes, // elements of a step
		kSteps = E::kSteps,
		kRowBoxes = chains ? 1 : 2,
		kTileRows = kRowBoxes * kBoxRows,
		kParts = E::kParts,
		kBoxes = kRowBoxes + kTileColumns / kBoxRows, // of a part: rows, then columns
		kStageBytes = kParts * kBoxes * kBoxBytes,
		kStages = kParts == 2 ? 4 : 6,
		kUnderway = chains ? 0 : 1, // steps whose products may be under way when the next one begins
	};
	typename E::Sum value[kRowBoxes][64];
	typename E::Sum chain[2][chains ? 64 : 1];

	// As tiles.cuh says, for the values of one part of the columns: kBoxValues of them are of each box of rows.
	enum {
		kRows = 2 * kRowBoxes,
		kColumns = 32 / kRows,
		kBoxValues = 32 / kRowBoxes,
		kPartColumns = kColumns * 4,
		kColumnParts = kTileColumns / kPartColumns,
		kSums = 2 // of 16 rows x 32 columns, whose places are multiples of these
	};
	static SLC_FN int row_of(int i) { return i / kBoxValues * 2 + i / 2 % 2; }
	static SLC_FN int column_of(int i) { return i % kBoxValues / 4 * 2 + i % 2; }
	static SLC_FN int row(int lane, int r) { return r / 2 * kBoxRows + r % 2 * 8 + lane / 4; }
	static SLC_FN int column(int lane, int c) { return c / 2 * 8 + lane % 4 * 2 + c % 2; }

	// load starts the copies of a step.
	static SLC_FN void load(unsigned char *stage, const Tiles &t, int row, int column, int depth, uint64_t *full) {
		SLC_UNROLL
		for (int part = 0; part < kParts; part++) {
			SLC_UNROLL
			for (int i = 0; i < kBoxes; i++) {
				const bool left = i < kRowBoxes;
				const unsigned char *map = (left ? t.row_maps : t.column_maps) + part * 128;
				const int at = left ? row + i * kBoxRows : column + (i - kRowBoxes) * kBoxRows;
				copy_box(stage + (part * kBoxes + i) * kBoxBytes, map, depth, at, full);
			}
		}
	}

	SLC_FN void begin() {
		SLC_UNROLL
		for (int i = 0; i < (chains ? 64 : 0); i++) value[0][i] = 0;
	}
	SLC_FN void multiply(const unsigned char *stage, int step) {
		if constexpr (chains)
			multiply_chains(stage);
		else
			multiply_one(stage, step);
	}
	SLC_FN void multiply_one(const unsigned char *stage, int step) {
		const unsigned char *columns = stage + kRowBoxes * kBoxBytes;
		touch();
		products_begin();
		SLC_UNROLL
		for (int k = 0; k < kBoxRowBytes; k += 32) {
			SLC_UNROLL
			for (int i = 0; i < kRowBoxes; i++)
				multiply_in(E(), value[i], described(stage + i * kBoxBytes + k), described(columns + k),
					step > 0 || k > 0);
		}
		products_end();
		products_wait<kUnderway>();
		touch();
	}
	// multiply_chains adds a chain while the next one is multiplied.
	SLC_FN void multiply_chains(const unsigned char *stage) {
		products_begin();
		start_chain(chain[0], stage, 0);
		start_chain(chain[1], stage, 64);
		products_wait<1>();
		add_chain(chain[0]);
		products_wait<0>();
		add_chain(chain[1]);
	}
	// start_chain starts the products of 64 bytes from byte k of a row on, the small ones first.
	static SLC_FN void start_chain(float (&c)[chains ? 64 : 1], const unsigned char *stage, int k) {
		const unsigned char *columns = stage + kRowBoxes * kBoxBytes, *low = stage + kBoxes * kBoxBytes,
			*low_columns = columns + kBoxes * kBoxBytes;
		touched(c);
		if (kParts == 2) {
			SLC_UNROLL
			for (int i = k; i < k + 64; i += 32)
				multiply_in(E(), c, described(stage + i), described(low_columns + i), i > k);
			SLC_UNROLL
			for (int i = k; i < k + 64; i += 32) multiply_in(E(), c, described(low + i), described(columns + i), 1);
		}
		SLC_UNROLL
		for (int i = k; i < k + 64; i += 32)
			multiply_in(E(), c, described(stage + i), described(columns + i), kParts == 2 || i > k);
		products_end();
	}
	SLC_FN void add_chain(float (&c)[chains ? 64 : 1]) {
		touched(c);
		SLC_UNROLL
		for (int i = 0; i < (chains ? 64 : 0); i++) value[0][i] += c[i];
	}
	SLC_FN void touch() {
		SLC_UNROLL
		for (int i = 0; i < kRowBoxes; i++) touched(value[i]);
	}
	SLC_FN void finish() {
		products_wait<0>();
		touch();
	}
	// float_of is a sum as a float; of what put has left, the float itself.
	static SLC_FN float float_of(float x, bool) { return x; }
	static SLC_FN float float_of(int x, bool put) { return put ? bits_to_float((uint32_t)x) : (float)x; }
	static SLC_FN void set(float *to, float x) { *to = x; }
	static SLC_FN void set(int *to, float x) { *to = (int)float_to_bits(x); }
	// part gives the values of the first part that is left, and moves the others so that the next one comes first. With
	// is_put it is one that put has left.
	SLC_FN void part(float (&v)[32], bool is_put) {
		SLC_UNROLL
		for (int box = 0; box < kRowBoxes; box++) {
			SLC_UNROLL
			for (int i = 0; i < kBoxValues; i++) {
				typename E::Sum *x = value[box] + i;
				v[box * kBoxValues + i] = float_of(x[0], is_put);
				SLC_UNROLL
				for (int at = 0; at + kBoxValues < 64; at += kBoxValues) x[at] = x[at + kBoxValues];
			}
		}
	}
	// put leaves values behind the others.
	SLC_FN void put(const float (&v)[32]) {
		SLC_UNROLL
		for (int box = 0; box < kRowBoxes; box++) {
			SLC_UNROLL
			for (int i = 0; i < kBoxValues; i++) set(&value[box][64 - kBoxValues + i], v[box * kBoxValues + i]);
		}
	}
};

// Shared memory of a block: stages, then this.
struct Ring {
	uint64_t full[8], empty[8], turn[kGroups]; // turn: the other group has all copies of its tile
	CountShared count[kGroups];
};

// Place is where the ring stands: a stage, and the parity of its turn.
template <class M> struct Place {
	int stage;
	uint32_t parity;
	// at is the place of a step of the block, from its first.
	static SLC_FN Place at(uint32_t step) {
		const Place p = {(int)(step % M::kStages), step / M::kStages & 1};
		return p;
	}
	SLC_FN void advance() {
		if (++stage == M::kStages) stage = 0, parity ^= 1;
	}
};

// first_row is the first row of a warp's values in its tile.
SLC_FN int first_row() { return (int)threadIdx.x % kGroupThreads / 32 * 16; }

// many is n, which the compiler does not know: it would write the code of all parts out.
SLC_FN int many(const Tiles &t, int n) { return t.rows.padded > 0 ? n : 0; }

// in_steps multiplies the values of a part, whose first row and column are given from the call's first, with the steps of
// codes, and adds what l2 adds to every value.
template <class M> SLC_FN void in_steps(float (&v)[32], const Tiles &t, int row, int column) {
	const int lane = (int)threadIdx.x % 32;
	const int64_t left = t.rows.from * kPanel, right = t.columns.from * kPanel;
	const int row_last = (int)(t.rows.to - t.rows.from) * kPanel - 1,
		column_last = (int)(t.columns.to - t.columns.from) * kPanel - 1;
	if (M::kSteps) {
		const float *rows = (const float *)t.rows.low + left, *columns = (const float *)t.columns.low + right;
		SLC_UNROLL
		for (int i = 0; i < 32; i++)
			v[i] = mul(v[i], mul(rows[min(row + M::row(lane, M::row_of(i)), row_last)],
				columns[min(column + M::column(lane, M::column_of(i)), column_last)]));
	}
	if (!t.rows.terms) return;
	const float *rows = t.rows.terms + left, *columns = t.columns.terms + right;
	SLC_UNROLL
	for (int i = 0; i < 32; i++)
		v[i] = v[i] + rows[min(row + M::row(lane, M::row_of(i)), row_last)] +
			columns[min(column + M::column(lane, M::column_of(i)), column_last)];
}

// for_tiles multiplies the block's tiles and calls f for each, by the group that has multiplied it, with the first
// row and column, from the call's first. before and after are called once by each of these groups.
template <class M, class Before, class F, class After>
SLC_FN void for_tiles(const Tiles &t, Before before, F f, After after) {
	unsigned char *stages = slc_dynamic;
	Ring *ring = (Ring *)(stages + M::kStages * M::kStageBytes);
	if (threadIdx.x == 0) {
		for (int i = 0; i < M::kStages; i++) {
			barrier_make(&ring->full[i], 1);
			barrier_make(&ring->empty[i], kGroupThreads / 32); // a warp each
		}
		for (int i = 0; i < kGroups; i++) barrier_make(&ring->turn[i], kGroupThreads / 32);
		barriers_made();
	}
	sync_block();
	const int64_t down = ((t.rows.to - t.rows.from) * kPanel + M::kTileRows - 1) / M::kTileRows,
		across = ((t.columns.to - t.columns.from) * kPanel + kTileColumns - 1) / kTileColumns, tiles = down * across;
	const int steps = (int)((t.rows.padded + M::kDepth - 1) / M::kDepth);
	const int group = (int)threadIdx.x / kGroupThreads;
	if (group == 0) {
		registers_down<24>();
		if (threadIdx.x != 0) return;
		map_ready(t.row_maps), map_ready(t.column_maps);
		if (M::kParts > 1) map_ready(t.row_maps + 128), map_ready(t.column_maps + 128);
		Place<M> p = {0, 0};
		for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
			const int row = (int)(t.rows.from * kPanel + tile % down * M::kTileRows),
				column = (int)(t.columns.from * kPanel + tile / down * kTileColumns);
			for (int step = 0; step < steps; step++, p.advance()) {
				barrier_wait(&ring->empty[p.stage], p.parity ^ 1);
				barrier_expect(&ring->full[p.stage], M::kStageBytes);
				M::load(stages + p.stage * M::kStageBytes, t, row, column, step * M::kDepth, &ring->full[p.stage]);
			}
		}
		return;
	}
	registers_up<240>();
	const bool first = threadIdx.x % 32 == 0; // of the warp
	const int mine = group - 1;
	before(&ring->count[mine]);
	uint32_t turn = (uint32_t)mine; // of the block's tiles
	for (int64_t tile = blockIdx.x + (int64_t)turn * gridDim.x; tile < tiles;
		tile += (int64_t)kGroups * gridDim.x, turn += kGroups) {
		M m;
		m.begin();
		Place<M> p = Place<M>::at(turn * (uint32_t)steps), done = p;
		// A barrier tells a phase from the next one only: who waits two turns ahead would go on at once.
		barrier_wait(&ring->turn[mine], (turn / kGroups & 1) ^ (mine == 0));
		for (int step = 0; step < steps; step++, p.advance()) {
			barrier_wait(&ring->full[p.stage], p.parity);
			if (first && step == steps - 1) barrier_arrive(&ring->turn[1 - mine]);
			m.multiply(stages + p.stage * M::kStageBytes, step);
			if (step < M::kUnderway) continue;
			if (first) barrier_arrive(&ring->empty[done.stage]);
			done.advance();
		}
		m.finish();
		if (M::kUnderway > 0 && first) barrier_arrive(&ring->empty[done.stage]);
		const int row = (int)(tile % down) * M::kTileRows, column = (int)(tile / down) * kTileColumns;
		f(&ring->count[mine], m, row, column);
	}
	after(&ring->count[mine]);
}

// count_ring is count for blocks that stay.
template <class M> SLC_FN void count_ring(const Tiles &t, const Counting &c) {
	const int thread = (int)threadIdx.x % kGroupThreads, number = (int)threadIdx.x / kGroupThreads;
	const int row_base = (int)(t.rows.from * kPanel), row_end = (int)min(t.rows.n, t.rows.to * kPanel) - row_base;
	const int column_end = (int)(min(t.columns.n, t.columns.to * kPanel) - t.columns.from * kPanel);
	for_tiles<M>(
		t,
		[&](CountShared *s) {
			for (int at = thread; at < (int)(sizeof *s / 4); at += kGroupThreads) ((uint32_t *)s)[at] = 0;
			sync_group(number);
		},
		[&](CountShared *s, M &m, int row, int column) {
			const int row0 = row + first_row();
			float v[32];
			const bool best = c.look->best != 0;
			if (best) {
				for (int p = 0; p < many(t, M::kColumnParts); p++) {
					const int first = p * M::kPartColumns;
					const Classes k = classify<M>(c, row0, column + first, row_end, column_end, row_base);
					m.part(v, false);
					in_steps<M>(v, t, row0, column + first);
					m.put(v);
					column_maxima<M>(s->best + first, v, k.far);
				}
				sync_group(number);
				if (column + thread < column_end) {
					const uint32_t mine = s->best[thread];
					s->best[thread] = max(mine, atomic_max(&c.best_other[column + thread], mine));
				}
				sync_group(number);
			}
			const int parts = row0 < row_end ? many(t, M::kColumnParts) : 0;
			for (int p = 0; p < parts; p++) {
				const int part = p * M::kPartColumns, first = column + part;
				const Classes k = classify<M>(c, row0, first, row_end, column_end, row_base);
				const uint32_t place = ((uint32_t)row0 << 16) + (uint32_t)first;
				m.part(v, best);
				if (!best) in_steps<M>(v, t, row0, first);
				negatives<M>(c, s, v, k.counted, place);
				if (best) candidates<M>(c, s->best + part, v, k, first, place);
			}
			if (!best) return;
			sync_group(number);
			s->best[thread] = 0;
			sync_group(number);
		},
		[&](CountShared *s) {
			sync_group(number);
			give_back(c, s, thread, kGroupThreads);
		});
}

// matrix_ring is matrix for blocks that stay.
template <class M> SLC_FN void matrix_ring(const Tiles &t, int64_t metric, double factor, float *out, int64_t stride) {
	const int64_t row_end = min(t.rows.n, t.rows.to * kPanel) - t.rows.from * kPanel,
		column_end = min(t.columns.n, t.columns.to * kPanel) - t.columns.from * kPanel;
	for_tiles<M>(
		t, [](CountShared *) {},
		[&](CountShared *, M &m, int row, int column) {
			const int lane = (int)threadIdx.x % 32, row0 = row + first_row();
			float v[32];
			for (int p = 0; p < many(t, M::kColumnParts); p++) {
				const int first = column + p * M::kPartColumns;
				m.part(v, false);
				in_steps<M>(v, t, row0, first);
				SLC_UNROLL
				for (int i = 0; i < 32; i++) {
					const int64_t r = row0 + M::row(lane, M::row_of(i)), q = first + M::column(lane, M::column_of(i));
					if (r < row_end && q < column_end) out[r * stride + q] = in_unit(v[i], metric, factor);
				}
			}
		},
		[](CountShared *) {});
}
#else
template <class E> struct RingTensor {};
template <class M> SLC_FN void count_ring(const Tiles &, const Counting &) {}
template <class M> SLC_FN void matrix_ring(const Tiles &, int64_t, double, float *, int64_t) {}
#endif

} // namespace slc
#endif
