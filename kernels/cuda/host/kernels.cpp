// The kernels for the host: fibers that take turns, and a table of kernels by name. The stand-in driver launches them
// with slc_host_launch.
#include "../kernels.cu"

#include "hopper.cpp"

#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#include <tuple>
#include <utility>
#include <vector>

namespace slc_emu {

thread_local Fiber *now;
thread_local uint3_ block_index, block_size, grid_size;
thread_local unsigned char *dynamic;

namespace {

// The stacks start at different offsets within their pages, so that they use different cache lines.
enum { kStack = (32 << 10) + 832 };

struct Block {
	std::vector<Fiber> fibers;
	std::vector<Warp> warps;
	std::vector<unsigned char> stacks, shared;
	Barrier barrier;
	jmp_buf caller;
	int left = 0, idle = 0; // fibers that have not ended; turns since one came further
	bool stuck = false;
	void (*run)(void **) = nullptr;
	void **params = nullptr;
};

thread_local Block *block;

// next switches to the fiber after the running one.
void next() {
	int n = (int)block->fibers.size();
	for (int i = 1; i <= n; i++) {
		Fiber *f = &block->fibers[(size_t)((now->number + i) % n)];
		if (f->done) continue;
		if (f == now) return;
		now = f;
		_longjmp(f->at, 1);
	}
}

void yield() {
	if (_setjmp(now->at) == 0) next();
}

// live is the function of a fiber: it runs one block after the other and does not return.
[[noreturn]] void live(Fiber *self) {
	for (;;) {
		block->run(block->params);
		self->done = true;
		block->idle = 0;
		if (_setjmp(self->at) == 0) {
			if (--block->left == 0) _longjmp(block->caller, 1);
			next();
			abort(); // another fiber was left
		}
	}
}

} // namespace

Barrier *block_barrier() { return &block->barrier; }

bool arrive(Barrier *b) { return ++b->arrived == b->size; }

void finish(Barrier *b) {
	b->arrived = 0;
	b->turn++;
	block->idle = 0;
}

void wait(Barrier *b) {
	unsigned turn = b->turn;
	while (b->turn == turn) {
		if (++block->idle > 4 * (int)block->fibers.size() + 64) { // threads wait at different places
			block->stuck = true;
			_longjmp(block->caller, 1);
		}
		yield();
	}
}

void moved() { block->idle = 0; }

void turn() {
	if (++block->idle > 4 * (int)block->fibers.size() + 64) fault("threads that wait for ever");
	yield();
}

void fault(const char *what) {
	fprintf(stderr, "kernels/cuda/host: %s\n", what);
	block->stuck = true;
	_longjmp(block->caller, 1);
}

// make starts n fibers. makecontext is used only for that: swapcontext would change the signal mask on each switch.
static void make(Block *b, int n) {
	b->fibers.assign((size_t)n, Fiber());
	b->warps.assign((size_t)(n + kWarp - 1) / kWarp, Warp());
	b->stacks.resize((size_t)n * kStack);
	static thread_local ucontext_t caller, fresh;
	for (int i = 0; i < n; i++) {
		Fiber *f = &b->fibers[(size_t)i];
		f->number = i, f->lane = i % kWarp;
		f->warp = &b->warps[(size_t)(i / kWarp)];
		getcontext(&fresh);
		fresh.uc_stack.ss_sp = b->stacks.data() + (size_t)i * kStack;
		fresh.uc_stack.ss_size = kStack;
		fresh.uc_link = nullptr;
		makecontext(&fresh, (void (*)())(+[] {
			Fiber *self = now;
			if (_setjmp(self->at) == 0) setcontext(&caller);
			live(self);
		}), 0);
		now = f;
		swapcontext(&caller, &fresh);
	}
}

// run_block reports whether all threads finished. Fibers are kept for the next block.
static bool run_block(Block *b, unsigned x, unsigned y, unsigned z) {
	block = b;
	const int n = (int)(x * y * z);
	if ((int)b->fibers.size() != n || b->stuck) make(b, n);
	b->barrier = Barrier();
	b->barrier.size = n;
	b->left = n, b->idle = 0, b->stuck = false;
	dynamic = b->shared.data();
	dynamic += -(uintptr_t)dynamic & 1023;
	hopper.reset(n);
	for (Warp &w : b->warps) w.barrier = Barrier();
	for (Fiber &f : b->fibers) {
		const unsigned i = (unsigned)f.number;
		f.thread = {i % x, i / x % y, i / (x * y)};
		f.done = false;
		f.warp->barrier.size++;
	}
	if (_setjmp(b->caller) == 0) {
		now = &b->fibers[0];
		_longjmp(now->at, 1);
	}
	now = nullptr;
	if (!b->stuck && hopper.left()) {
		fprintf(stderr, "kernels/cuda/host: copies or products that nobody has waited for\n");
		b->stuck = true;
	}
	return !b->stuck;
}

template <class... A, size_t... i> static void call(void (*f)(A...), void **p, std::index_sequence<i...>) {
	(void)p;
	f(*(A *)p[i]...);
}
template <class... A> static void call(void (*f)(A...), void **p) { call(f, p, std::index_sequence_for<A...>{}); }

struct Kernel {
	const char *name;
	void (*run)(void **);
};

#define ENTRY(name) {#name, [](void **p) { call(name, p); }},
static const Kernel entries[] = {SLC_KERNELS(ENTRY)};

} // namespace slc_emu

extern "C" const char *slc_host_kernels(int i) {
	int n = (int)(sizeof slc_emu::entries / sizeof slc_emu::entries[0]);
	return i >= 0 && i < n ? slc_emu::entries[i].name : nullptr;
}

// slc_host_launch runs a grid. It returns 0; 1 if there is no such kernel; 2 if threads deadlocked.
extern "C" int slc_host_launch(const char *kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
		unsigned bz, unsigned shared, void **params) {
	using namespace slc_emu;
	for (const Kernel &e : entries) {
		if (strcmp(e.name, kernel) != 0) continue;
		static thread_local Block b;
		b.run = e.run, b.params = params;
		b.shared.assign(shared + 1280, 0xff); // NaN, where a kernel reads what it has not written
		block_size = {bx, by, bz}, grid_size = {gx, gy, gz};
		for (unsigned z = 0; z < gz; z++)
			for (unsigned y = 0; y < gy; y++)
				for (unsigned x = 0; x < gx; x++) {
					block_index = {x, y, z};
					if (!run_block(&b, bx, by, bz)) return 2;
				}
		return 0;
	}
	return 1;
}
