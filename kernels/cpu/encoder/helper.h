// A second thread for what one thread computes too long: it takes half of each product and attention of a run.
//
// Handing over has to take less than a microsecond, so during a run both threads poll and none sleeps. The thread is
// the operating system's, not Go's: while all threads that Go may use are in C, Go wakes another one again and again to
// see what they do, and that one takes a processor away.
#ifndef SLC_HELPER_H
#define SLC_HELPER_H

#include "attention.h"
#include "linear.h"

typedef struct slc_helper slc_helper;

// slc_helper_open starts a thread, which sleeps; NULL without memory or threads. slc_helper_close ends it; no run is
// under way.
slc_helper *slc_helper_open(void);
void slc_helper_close(slc_helper *h);

// slc_helper_begin begins a run, and slc_helper_end ends it, both on the run's thread.
void slc_helper_begin(slc_helper *h);
void slc_helper_end(slc_helper *h);

// slc_helper_done is how many parts it has computed in this run.
int64_t slc_helper_done(const slc_helper *h);

typedef int32_t slc_task_fn(int32_t isa, const void *arguments, slc_error *error);

// Tasks with an slc_linear or an slc_attention.
slc_task_fn slc_product_f32, slc_product_i8, slc_heads_f32, slc_heads_bf16;

// slc_share computes a task, on the run's thread: if the helper waits for one now, this thread one part of it and the
// helper the other, else this thread the whole. Arguments have `size` bytes. No helper: NULL.
int32_t slc_share(slc_helper *h, slc_task_fn *task, int32_t isa, const void *whole, const void *mine, const void *its,
                  int64_t size, slc_error *error);

#endif
