// The emulation of device.cuh on a CPU: the threads of a block are fibers of one thread of the process, which take
// turns at barriers and at the operations of a warp. Kernels run as they are written, index for index; only
// instructions are replaced. It is for tests: it multiplies at about a thousandth of a GPU's speed.
#ifndef SLC_EMULATE_H
#define SLC_EMULATE_H

#include <math.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SLC_FN inline
#define SLC_KERNEL(threads) static void
#define SLC_SHARED static thread_local
#define SLC_UNROLL
#define SLC_UNROLL_BY(n)

struct uint3_ {
	unsigned x, y, z;
};

namespace slc_emu {

enum { kWarp = 32, kMaxThreads = 1024 };

// Barrier of a block or a warp: the last to come lets the others go.
struct Barrier {
	int arrived = 0, size = 0;
	unsigned turn = 0;
};

struct Warp {
	Barrier barrier;
	const void *in[kWarp];
	void *out[kWarp];
	uint64_t slot[kWarp];
};

struct Fiber {
	uint3_ thread;
	int number, lane;
	bool done;
	jmp_buf at;
	Warp *warp;
};

extern thread_local Fiber *now;
extern thread_local uint3_ block_index, block_size, grid_size;
extern thread_local unsigned char *dynamic;

void wait(Barrier *b); // gives turns to the other fibers until all have come
Barrier *block_barrier();
void finish(Barrier *b); // for the last who comes: lets the others go
bool arrive(Barrier *b); // tells the last who comes

// collective calls f once for the warp, by its last lane that comes, when all have given in and out.
template <class F> inline void collective(const void *in, void *out, F f) {
	Warp *w = now->warp;
	w->in[now->lane] = in, w->out[now->lane] = out;
	if (arrive(&w->barrier)) {
		f(w);
		finish(&w->barrier);
	} else {
		wait(&w->barrier);
	}
}

} // namespace slc_emu

#define threadIdx (slc_emu::now->thread)
#define blockIdx (slc_emu::block_index)
#define blockDim (slc_emu::block_size)
#define gridDim (slc_emu::grid_size)
#define slc_dynamic (slc_emu::dynamic)

namespace slc {

SLC_FN void sync_block() {
	slc_emu::Barrier *b = slc_emu::block_barrier();
	if (slc_emu::arrive(b))
		slc_emu::finish(b);
	else
		slc_emu::wait(b);
}
SLC_FN void sync_warp() { slc_emu::collective(nullptr, nullptr, [](slc_emu::Warp *) {}); }

template <class T> SLC_FN T shuffle_by(T v, int from) {
	struct Give {
		T v;
		int from;
	} give = {v, from & 31};
	T got;
	slc_emu::collective(&give, &got, [](slc_emu::Warp *w) {
		for (int l = 0; l < slc_emu::kWarp; l++) {
			const Give *g = (const Give *)w->in[l];
			*(T *)w->out[l] = ((const Give *)w->in[g->from])->v;
		}
	});
	return got;
}
template <class T> SLC_FN T shuffle_xor(T v, int mask) { return shuffle_by(v, slc_emu::now->lane ^ mask); }
template <class T> SLC_FN T shuffle(T v, int lane) { return shuffle_by(v, lane); }

SLC_FN uint32_t ballot(bool b) {
	uint32_t votes;
	slc_emu::collective(&b, &votes, [](slc_emu::Warp *w) {
		uint32_t all = 0;
		for (int l = 0; l < slc_emu::kWarp; l++) all |= (uint32_t)*(const bool *)w->in[l] << l;
		for (int l = 0; l < slc_emu::kWarp; l++) *(uint32_t *)w->out[l] = all;
	});
	return votes;
}
SLC_FN int count_bits(uint32_t x) { return __builtin_popcount(x); }
SLC_FN int first_bit(uint32_t x) { return __builtin_ffs((int)x) - 1; }
SLC_FN float bits_to_float(uint32_t x) {
	float f;
	memcpy(&f, &x, sizeof f);
	return f;
}
SLC_FN uint32_t float_to_bits(float x) {
	uint32_t b;
	memcpy(&b, &x, sizeof b);
	return b;
}
SLC_FN uint64_t double_to_bits(double x) {
	uint64_t b;
	memcpy(&b, &x, sizeof b);
	return b;
}
SLC_FN double mul(double x, double y) { return x * y; } // compiled with -ffp-contract=off
SLC_FN double add(double x, double y) { return x + y; }
SLC_FN float mul(float x, float y) { return x * y; }
SLC_FN float square_root(float x) { return sqrtf(x); }

// One thread of the process runs a grid, so plain operations are atomic.
SLC_FN uint64_t atomic_add(uint64_t *p, uint64_t v) {
	uint64_t old = *p;
	*p += v;
	return old;
}
SLC_FN uint64_t atomic_max(uint64_t *p, uint64_t v) {
	uint64_t old = *p;
	if (v > old) *p = v;
	return old;
}
SLC_FN uint32_t atomic_max(uint32_t *p, uint32_t v) {
	uint32_t old = *p;
	if (v > old) *p = v;
	return old;
}
SLC_FN uint32_t atomic_add32(uint32_t *p, uint32_t v) {
	uint32_t old = *p;
	*p += v;
	return old;
}
SLC_FN uint32_t atomic_or(uint32_t *p, uint32_t v) {
	uint32_t old = *p;
	*p |= v;
	return old;
}

struct alignas(16) Word4 {
	int x, y, z, w;
};
SLC_FN Word4 load_once(const Word4 *p) { return *p; }
SLC_FN int dot4(int a, int b, int c) {
	for (int i = 0; i < 32; i += 8) c += (int)(int8_t)(a >> i) * (int)(int8_t)(b >> i);
	return c;
}

SLC_FN void copy16(void *shared, const void *global) { memcpy(shared, global, 16); }
SLC_FN void copies_commit() {}
template <int n> SLC_FN void copies_wait() {}

SLC_FN void load_matrices(uint32_t r[4], const void *row) {
	slc_emu::collective(row, r, [](slc_emu::Warp *w) {
		for (int l = 0; l < slc_emu::kWarp; l++)
			for (int m = 0; m < 4; m++)
				memcpy((uint32_t *)w->out[l] + m, (const uint32_t *)w->in[8 * m + l / 4] + l % 4, 4);
	});
}

// multiply_bytes calls f for the matrices of mma.m16n8k32: 16 rows of 32 bytes, 8 columns of 32, and 16 x 8 sums.
template <class T, class F> inline void multiply_bytes(T c[4], const uint32_t a[4], uint32_t b0, uint32_t b1, F f) {
	uint32_t in[6] = {a[0], a[1], a[2], a[3], b0, b1};
	slc_emu::collective(in, c, [f](slc_emu::Warp *w) {
		uint8_t x[16][32], y[8][32];
		for (int l = 0; l < slc_emu::kWarp; l++) {
			const uint32_t *word = (const uint32_t *)w->in[l];
			const int g = l / 4, t = l % 4 * 4;
			memcpy(&x[g][t], word, 4), memcpy(&x[g + 8][t], word + 1, 4);
			memcpy(&x[g][t + 16], word + 2, 4), memcpy(&x[g + 8][t + 16], word + 3, 4);
			memcpy(&y[g][t], word + 4, 4), memcpy(&y[g][t + 16], word + 5, 4);
		}
		for (int l = 0; l < slc_emu::kWarp; l++)
			for (int r = 0; r < 4; r++) {
				T *sum = (T *)w->out[l] + r;
				*sum = f(x[l / 4 + 8 * (r / 2)], y[2 * (l % 4) + r % 2], *sum);
			}
	});
}

inline int sum_i8(const uint8_t x[32], const uint8_t y[32], int sum) {
	for (int k = 0; k < 32; k++) sum += (int)(int8_t)x[k] * (int)(int8_t)y[k];
	return sum;
}
SLC_FN void multiply_i8(int c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
	multiply_bytes(c, a, b0, b1, sum_i8);
}

// sum_e4m3 adds 32 products of e4m3: all terms are brought to the exponent of the largest and cut off 13 bits behind
// its point, the result keeps 13 bits of fraction, as on sm_89 and sm_90 (Xie et al., MMA-Sim, 2025; DeepSeek-V3's
// report, 2024, section 3.3.2). Terms come in two steps, which loses more than one. Numbers are in units of 2^-18.
inline float sum_e4m3(const uint8_t x[32], const uint8_t y[32], float before) {
	auto units = [](uint8_t code) { // of 2^-9, told apart from what packing does
		const int exponent = code >> 3 & 15, fraction = code & 7;
		const int64_t size = exponent ? (int64_t)(8 + fraction) << (exponent - 1) : fraction;
		return code & 0x80 ? -size : size;
	};
	auto size = [](int64_t t) { return t < 0 ? -t : t; };
	auto cut = [&](int64_t t, int64_t largest) { // of a term beside the largest
		const int bits = 63 - __builtin_clzll((uint64_t)largest) - 13;
		const int64_t kept = bits > 0 ? size(t) >> bits << bits : size(t);
		return t < 0 ? -kept : kept;
	};
	int64_t sum = (int64_t)ldexp(before, 18);
	for (int half = 0; half < 32; half += 16) {
		int64_t terms[17] = {sum}, largest = size(sum);
		for (int k = 0; k < 16; k++) {
			const uint8_t a = x[half + k], b = y[half + k];
			if ((a & 0x7f) == 0x7f || (b & 0x7f) == 0x7f) return NAN;
			terms[1 + k] = units(a) * units(b);
			largest = size(terms[1 + k]) > largest ? size(terms[1 + k]) : largest;
		}
		if (largest == 0) continue;
		sum = 0;
		for (int64_t t : terms) sum += cut(t, largest);
		if (sum != 0) sum = cut(sum, size(sum));
	}
	return (float)ldexp((double)sum, -18);
}
SLC_FN void multiply_e4m3(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
	multiply_bytes(c, a, b0, b1, sum_e4m3);
}

// Products of bfloat16 are exact; their sum with c is rounded towards 0 once, a rounding that tensor cores are known
// for (Fasi et al., Numerical behavior of NVIDIA tensor cores, 2021).
SLC_FN void multiply_bf16(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
	uint32_t in[6] = {a[0], a[1], a[2], a[3], b0, b1};
	slc_emu::collective(in, c, [](slc_emu::Warp *w) {
		typedef double columns __attribute__((vector_size(64))); // 8 of them
		double x[16][16];                                         // [row][k]
		columns y[16], sum[16];                                   // [k], [row]
		for (int l = 0; l < slc_emu::kWarp; l++) {
			const uint32_t *f = (const uint32_t *)w->in[l];
			const float *d = (const float *)w->out[l];
			const int g = l / 4, t = 2 * (l % 4);
			for (int half = 0; half < 2; half++) {
				auto part = [&](uint32_t pair) { return (double)bits_to_float((pair >> (16 * half)) << 16); };
				x[g][t + half] = part(f[0]), x[g + 8][t + half] = part(f[1]);
				x[g][t + 8 + half] = part(f[2]), x[g + 8][t + 8 + half] = part(f[3]);
				y[t + half][g] = part(f[4]), y[t + 8 + half][g] = part(f[5]);
				sum[g][t + half] = d[half], sum[g + 8][t + half] = d[2 + half];
			}
		}
		for (int k = 0; k < 16; k++)
			for (int row = 0; row < 16; row++) sum[row] += x[row][k] * y[k];
		for (int l = 0; l < slc_emu::kWarp; l++)
			for (int r = 0; r < 4; r++) {
				const double exact = sum[l / 4 + 8 * (r / 2)][2 * (l % 4) + r % 2];
				float f = (float)exact;
				if (fabs((double)f) > fabs(exact)) f = nextafterf(f, 0);
				((float *)w->out[l])[r] = f;
			}
	});
}

} // namespace slc
#endif
