// How often our code did an operation of ggml's, so that a test can tell whether it was reached at all, and how long
// threads waited for each other. The CPU backend's get_proc_address gives ran and waited under the names "slc_ran" and
// "slc_time_waited" (third_party/llama/patches/cpu).
#pragma once

#include <atomic>
#include <cstdint>

namespace slc {

struct Ran {
    std::atomic<int64_t> attention{0}, products{0}, waited{0};
};

inline Ran & counters() {
    static Ran r; // one in each of the builds for an instruction set, of which one runs
    return r;
}

inline void ran(int64_t * attention, int64_t * products) {
    *attention = counters().attention.load(std::memory_order_relaxed);
    *products = counters().products.load(std::memory_order_relaxed);
}

// Microseconds of all threads, without short waits (barrier.h).
inline int64_t waited() {
    return counters().waited.load(std::memory_order_relaxed);
}

} // namespace slc

// Products of ggml-cpu.c, which is C.
extern "C" __attribute__((used)) inline void slc_product_ran(void) {
    slc::counters().products.fetch_add(1, std::memory_order_relaxed);
}

// Threads of ggml-cpu.c (barrier.h).
extern "C" __attribute__((used)) inline void slc_waited(int64_t us) {
    slc::counters().waited.fetch_add(us, std::memory_order_relaxed);
}
