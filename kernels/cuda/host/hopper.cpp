// What host/hopper.h names: boxes, barriers that count bytes, and products from described matrices.
#include "hopper.h"

#include <stdio.h>
#include <stdlib.h>

namespace slc_emu {

thread_local Hopper hopper;

int number() { return now->number; }
uint32_t shared_offset(const void *p) { return (uint32_t)((const unsigned char *)p - dynamic); }

void Hopper::reset(int threads) {
	copies.clear();
	for (int i = 0; i < kMaxThreads; i++) products[i].clear(), ended[i] = 0;
	for (Barrier &b : group) b = Barrier();
	for (Barrier &b : named) b = Barrier();
	const int first = kRegisterFile / threads / 8 * 8;
	for (int &r : registers) r = first;
}

bool Hopper::left() const {
	for (const std::vector<Product> &p : products)
		if (!p.empty()) return true;
	return !copies.empty();
}

void meet(Barrier *b, int size) {
	b->size = size;
	if (arrive(b))
		finish(b);
	else
		wait(b);
}

Arrivals *arrivals(uint64_t *b) {
	Arrivals *a = (Arrivals *)b;
	if (a->mark != kBarrierMark) fault("a barrier that was not made");
	return a;
}

static void settle(Arrivals *b) {
	if (b->left > 0 || b->units > 0) return;
	b->phase ^= 1;
	b->left = b->count;
	moved();
}

void arrive(Arrivals *b, int units) {
	if (b->left == 0) fault("more arrivals than the barrier has");
	b->left--;
	b->units = (uint16_t)(b->units + units);
	settle(b);
}

// swizzled is where the hardware finds the byte of an address, with a pattern of so many bytes.
static uint32_t swizzled(uint32_t at, uint32_t bytes) {
	return bytes == 0 ? at : at ^ ((at >> 7 & (bytes / 16 - 1)) << 4);
}

static void copy(const BoxCopy &c) {
	const Map &m = *c.map;
	const uint32_t row_bytes = m.box_width * m.element, base = shared_offset(c.to);
	for (uint32_t r = 0; r < m.box_height; r++)
		for (uint32_t at = 0; at < row_bytes; at += 16) {
			unsigned char unit[16] = {};
			for (uint32_t i = 0; i < 16; i += m.element) {
				const int64_t x = (int64_t)c.x + (at + i) / m.element, y = (int64_t)c.y + r;
				if (x < 0 || y < 0 || (uint64_t)x >= m.width || (uint64_t)y >= m.height) continue;
				const uint64_t from = m.address + (uint64_t)y * m.stride + (uint64_t)x * m.element;
				memcpy(unit + i, (const unsigned char *)from, m.element);
			}
			memcpy(dynamic + swizzled(base + r * row_bytes + at, m.swizzle), unit, 16);
		}
}

void deliver(Arrivals *b) {
	size_t kept = 0;
	for (const BoxCopy &c : hopper.copies) {
		if (c.barrier != b) {
			hopper.copies[kept++] = c;
			continue;
		}
		copy(c);
		const uint32_t units = c.map->box_width * c.map->box_height * c.map->element / 16;
		if (units > b->units) fault("more bytes than the barrier expects");
		b->units = (uint16_t)(b->units - units);
		moved();
	}
	if (kept == hopper.copies.size()) return;
	hopper.copies.resize(kept);
	settle(b);
}

// What a product reads: 64 or 128 rows of 32 bytes. place is where the byte of that number lies.
static const unsigned char *place(uint64_t described, int row, int k) {
	const uint32_t start = (uint32_t)(described & 0x3fff) << 4, leading = (uint32_t)(described >> 16 & 0x3fff) << 4,
				   stride = (uint32_t)(described >> 32 & 0x3fff) << 4, mode = (uint32_t)(described >> 62);
	uint32_t at;
	if (mode == 1) // 128 bytes: rows of that size, eight of them together
		at = swizzled(start + (uint32_t)row / 8 * stride + (uint32_t)row % 8 * 128 + (uint32_t)k, 128);
	else if (mode == 0) // none: matrices of 8 x 16 bytes
		at = start + (uint32_t)row / 8 * stride + (uint32_t)k / 16 * leading + (uint32_t)row % 8 * 16 +
			 (uint32_t)k % 16;
	else
		fault("a descriptor with a swizzle that is not used here");
	return dynamic + at;
}

enum { kRows = 64, kColumns = 128 };

// sum_of is where a product's value of that row and column lies.
template <class T> static T *sum_of(int first, size_t i, int row, int column) {
	const int thread = row / 16 * 32 + row % 8 * 4 + column % 8 / 2;
	return (T *)hopper.products[first + thread][i].c + column / 8 * 4 + row / 8 % 2 * 2 + column % 2;
}

// product_of_bytes calls f with 32 bytes of a row, of a column, and the sum so far.
template <class T, class F> static void product_of_bytes(int first, size_t i, F f) {
	const Product &p = hopper.products[first][i];
	static thread_local uint8_t a[kRows][32], b[kColumns][32];
	for (int k = 0; k < 32; k++) {
		for (int r = 0; r < kRows; r++) a[r][k] = *place(p.a, r, k);
		for (int c = 0; c < kColumns; c++) b[c][k] = *place(p.b, c, k);
	}
	for (int r = 0; r < kRows; r++)
		for (int c = 0; c < kColumns; c++) {
			T *to = sum_of<T>(first, i, r, c);
			*to = f(a[r], b[c], p.add ? *to : 0);
		}
}

// product_of_bf16: as in emulate.h, products are exact, their sum with c is rounded towards 0 once.
static void product_of_bf16(int first, size_t i) {
	enum { kDepth = 16 };
	typedef double lanes __attribute__((vector_size(64)));
	const Product &p = hopper.products[first][i];
	static thread_local double a[kRows][kDepth];
	static thread_local lanes b[kDepth][kColumns / 8];
	auto value = [](uint64_t described, int row, int k) {
		uint16_t bits;
		memcpy(&bits, place(described, row, 2 * k), sizeof bits);
		return (double)slc::bits_to_float((uint32_t)bits << 16);
	};
	for (int k = 0; k < kDepth; k++) {
		for (int r = 0; r < kRows; r++) a[r][k] = value(p.a, r, k);
		for (int c = 0; c < kColumns; c++) b[k][c / 8][c % 8] = value(p.b, c, k);
	}
	for (int r = 0; r < kRows; r++) {
		lanes sum[kColumns / 8] = {};
		for (int k = 0; k < kDepth; k++)
			for (int c = 0; c < kColumns / 8; c++) sum[c] += a[r][k] * b[k][c];
		for (int c = 0; c < kColumns; c++) {
			float *to = sum_of<float>(first, i, r, c);
			const double exact = sum[c / 8][c % 8] + (p.add ? (double)*to : 0);
			float f = (float)exact;
			if (fabs((double)f) > fabs(exact)) f = nextafterf(f, 0);
			*to = f;
		}
	}
}

// product is one instruction.
static void product(int first, size_t i) {
	const Product &p = hopper.products[first][i];
	for (int t = 0; t < kGroupOfWarps; t++) {
		const Product &o = hopper.products[first + t][i];
		if (o.a != p.a || o.b != p.b || o.add != p.add || o.of != p.of)
			fault("threads of a group that ask for other products");
	}
	if (p.of == kElementsI8)
		product_of_bytes<int>(first, i, slc::sum_i8);
	else if (p.of == kElementsE4M3)
		product_of_bytes<float>(first, i, slc::sum_e4m3);
	else
		product_of_bf16(first, i);
}

void multiply(int group, int under_way) {
	const int first = group * kGroupOfWarps;
	size_t done = 0;
	for (const Product &p : hopper.products[first]) done += p.depth >= 0 && p.depth < hopper.ended[first] - under_way;
	for (int t = 0; t < kGroupOfWarps; t++)
		if (hopper.products[first + t].size() != hopper.products[first].size() ||
			hopper.ended[first + t] != hopper.ended[first])
			fault("threads of a group that ask for other products");
	for (size_t i = 0; i < done; i++) product(first, i);
	for (int t = 0; t < kGroupOfWarps; t++) {
		std::vector<Product> &list = hopper.products[first + t];
		list.erase(list.begin(), list.begin() + (long)done);
	}
}

} // namespace slc_emu

namespace slc {

void copy_box(void *shared, const void *map, int x, int y, uint64_t *barrier) {
	using namespace slc_emu;
	const Map *m = (const Map *)map;
	if ((uintptr_t)map % 64 != 0) fault("a map that is not at a multiple of 64");
	if (m->mark != kMapMark) fault("a copy by what is not a map");
	if (shared_offset(shared) % (m->swizzle ? 1024 : 128) != 0)
		fault("a box at an address that its swizzle does not take");
	memset(shared, 0xff, (size_t)m->box_width * m->box_height * m->element);
	hopper.copies.push_back({(unsigned char *)shared, m, x, y, arrivals(barrier)});
}

void set_registers(int n, bool more) {
	using namespace slc_emu;
	const int group = number() / kGroupOfWarps;
	const int groups = (int)(block_size.x * block_size.y * block_size.z) / kGroupOfWarps;
	const int had = hopper.registers[group];
	meet(&hopper.group[group], kGroupOfWarps);
	if (n % 8 != 0 || n < 24 || n > 256 || (n > had) != more)
		fault("a number of registers that cannot be set");
	for (;;) { // until others have given enough back
		int used = n;
		for (int g = 0; g < groups; g++) used += g == group ? 0 : hopper.registers[g];
		if (used * kGroupOfWarps <= kRegisterFile) break;
		turn();
	}
	if (hopper.registers[group] != n) moved();
	hopper.registers[group] = n;
}

} // namespace slc
