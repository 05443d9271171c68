// A second thread to reduce latency: it computes half of each product and attention of a run.
//
// Handing over a task has to take less than a microsecond, so during a run both threads poll and neither sleeps. The
// thread belongs to the operating system, not to Go: while all threads that Go may use are in C, Go repeatedly wakes
// another one to check on them, which takes a processor away.
#ifndef SLC_HELPER_H
#define SLC_HELPER_H

#include "attention.h"
#include "linear.h"

typedef struct slc_helper slc_helper;

// slc_helper_open starts a thread, which sleeps; it returns NULL if there is no memory or thread. slc_helper_close ends
// it; no run may be in progress.
slc_helper *slc_helper_open(void);
void slc_helper_close(slc_helper *h);

// slc_helper_begin begins a run, and slc_helper_end ends it, both on the caller's thread.
void slc_helper_begin(slc_helper *h);
void slc_helper_end(slc_helper *h);

// slc_helper_done returns the number of parts it has computed in this run.
int64_t slc_helper_done(const slc_helper *h);

typedef int32_t slc_task_fn(int32_t isa, const void *arguments, slc_error *error);

// Tasks with an slc_linear or an slc_attention as arguments.
slc_task_fn slc_product_f32, slc_product_i8, slc_heads_f32, slc_heads_bf16;

// slc_share computes a task on the run's thread: if the helper is waiting, each thread computes one part; otherwise
// this thread computes all. Arguments have `size` bytes. The helper may be NULL.
int32_t slc_share(slc_helper *h, slc_task_fn *task, int32_t isa, const void *whole, const void *mine, const void *its,
                  int64_t size, slc_error *error);

#endif
