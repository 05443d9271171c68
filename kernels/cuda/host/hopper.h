// The emulation of hopper.cuh. Copies of boxes and products of a group of warps run as late as allowed: a copy when
// somebody waits for its barrier, and until then its destination is NaN; a product when its group waits for it, from
// the contents of shared memory at that time. So a missing wait gives wrong values. Maps and descriptors are
// interpreted as by the hardware: a swizzle exchanges 16-byte units by bits 7 to 9 of the address in shared memory, for
// copies and for products.
#ifndef SLC_EMULATE_HOPPER_H
#define SLC_EMULATE_HOPPER_H

#include "emulate.h"

#include <vector>

namespace slc_emu {

// A map, as the stand-in driver encodes it (cuda/drivertest/standin/maps.cpp).
struct Map {
	uint64_t mark; // kMapMark
	uint64_t address, width, height, stride; // elements, rows, bytes
	uint32_t box_width, box_height, element, swizzle; // elements, rows; bytes; bytes that repeat, or 0
	uint64_t unused[9];
};
enum : uint64_t { kMapMark = 0x70616d2d636c73 };
static_assert(sizeof(Map) == 128, "a map has 128 bytes");

// A barrier of shared memory: eight bytes.
struct Arrivals {
	uint16_t count, left;
	uint8_t phase, mark; // kBarrierMark
	uint16_t units;      // of 16 bytes, that are still to be copied
};
enum { kBarrierMark = 0xb5 };
static_assert(sizeof(Arrivals) == 8, "a barrier has 8 bytes");

struct BoxCopy {
	unsigned char *to;
	const Map *map;
	int x, y;
	Arrivals *barrier;
};

// A product queued by a thread.
enum Elements { kElementsBF16, kElementsI8, kElementsE4M3 };
struct Product {
	void *c; // floats; ints for I8
	uint64_t a, b;
	int add, depth; // depth: of the group of products, from the thread's first; -1: not ended
	Elements of;
};

enum { kGroupOfWarps = 128, kMaxGroups = kMaxThreads / kGroupOfWarps, kRegisterFile = 65536 };

// A block's state.
struct Hopper {
	std::vector<BoxCopy> copies;
	std::vector<Product> products[kMaxThreads];
	int ended[kMaxThreads]; // groups of products
	Barrier group[kMaxGroups], named[16];
	int registers[kMaxGroups]; // a thread, 0: as at the start
	void reset(int threads);
	bool left() const; // whether some work was queued and not waited for
};
extern thread_local Hopper hopper;

[[noreturn]] void fault(const char *what); // ends the launch
void moved();                              // a thread has changed what others may wait for
void turn();                               // gives a turn to the other threads of the block
void meet(Barrier *b, int size);
void deliver(Arrivals *b);
Arrivals *arrivals(uint64_t *b);
void arrive(Arrivals *b, int units);
void multiply(int group, int under_way);
int number();
uint32_t shared_offset(const void *p);

} // namespace slc_emu

namespace slc {

SLC_FN void barrier_make(uint64_t *b, int n) {
	const slc_emu::Arrivals a = {(uint16_t)n, (uint16_t)n, 0, slc_emu::kBarrierMark, 0};
	memcpy((void *)b, &a, sizeof a);
}
SLC_FN void barriers_made() {}
SLC_FN void barrier_arrive(uint64_t *b) { slc_emu::arrive(slc_emu::arrivals(b), 0); }
SLC_FN void barrier_expect(uint64_t *b, int bytes) { slc_emu::arrive(slc_emu::arrivals(b), bytes / 16); }
SLC_FN void barrier_wait(uint64_t *b, uint32_t parity) {
	slc_emu::Arrivals *a = slc_emu::arrivals(b);
	while (a->phase == parity) {
		slc_emu::deliver(a);
		if (a->phase == parity) slc_emu::turn();
	}
}
SLC_FN void map_ready(const void *) {}
void copy_box(void *shared, const void *map, int x, int y, uint64_t *barrier);

SLC_FN uint64_t address_field(const void *shared) { return (slc_emu::shared_offset(shared) & 0x3ffff) >> 4; }
SLC_FN void products_begin() {}
SLC_FN void products_end() {
	const int t = slc_emu::number();
	for (slc_emu::Product &p : slc_emu::hopper.products[t])
		if (p.depth < 0) p.depth = slc_emu::hopper.ended[t];
	slc_emu::hopper.ended[t]++;
}
template <int n> SLC_FN void products_wait() {
	const int group = slc_emu::number() / slc_emu::kGroupOfWarps;
	slc_emu::Barrier *b = &slc_emu::hopper.group[group];
	b->size = slc_emu::kGroupOfWarps;
	if (slc_emu::arrive(b)) {
		slc_emu::multiply(group, n);
		slc_emu::finish(b);
	} else {
		slc_emu::wait(b);
	}
}
template <class T, int n> SLC_FN void touched(T (&)[n]) {}
SLC_FN void multiply_group_bf16(float *c, uint64_t a, uint64_t b, int add) {
	slc_emu::hopper.products[slc_emu::number()].push_back({c, a, b, add, -1, slc_emu::kElementsBF16});
}
SLC_FN void multiply_group_i8(int *c, uint64_t a, uint64_t b, int add) {
	slc_emu::hopper.products[slc_emu::number()].push_back({c, a, b, add, -1, slc_emu::kElementsI8});
}
SLC_FN void multiply_group_e4m3(float *c, uint64_t a, uint64_t b, int add) {
	slc_emu::hopper.products[slc_emu::number()].push_back({c, a, b, add, -1, slc_emu::kElementsE4M3});
}
void set_registers(int n, bool more);
template <int n> SLC_FN void registers_down() { set_registers(n, false); }
template <int n> SLC_FN void registers_up() { set_registers(n, true); }
SLC_FN void sync_group(int number) { slc_emu::meet(&slc_emu::hopper.named[number & 15], slc_emu::kGroupOfWarps); }

} // namespace slc
#endif
