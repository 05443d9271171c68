// How a thread waits for the others at the end of an operation of a graph. The set-up puts this file into ggml's CPU
// code, and a patch makes ggml_barrier (ggml-cpu.c) call it.
//
// ggml's threads spin. Where other programs compute, too, the thread that all wait for may be waiting for its
// processor, for milliseconds at each of hundreds of operations. Here a thread that waits long lets others have its
// processor, and counts the time: the engine then computes with fewer threads (llm/binding/threads.h).
#pragma once

#include <stdatomic.h>
#include <stdint.h>

void slc_waited(int64_t us); // counts (ran.h)

enum {
    SLC_SPINS = 4096,    // 70 to 200 µs
    SLC_LONG_WAIT = 500, // µs: longer than threads wait for one that has more to do, shorter than a program's turn
};

// slc_await waits until *passed, which has been `was`, changes.
static void slc_await(atomic_int * passed, int was) {
    for (int i = 0; i < SLC_SPINS; i++) {
        if (atomic_load_explicit(passed, memory_order_relaxed) != was) return;
        ggml_thread_cpu_relax();
    }
    const int64_t begun = ggml_time_us();
    for (unsigned turn = 1; atomic_load_explicit(passed, memory_order_relaxed) == was; turn++) {
        if (turn % 1024)
            ggml_thread_cpu_relax();
        else
            sched_yield();
    }
    const int64_t waited = ggml_time_us() - begun;
    if (waited >= SLC_LONG_WAIT) slc_waited(waited);
}
