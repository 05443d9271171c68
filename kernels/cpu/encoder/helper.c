//go:build amd64 || arm64

#include "helper.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

// States of a helper: no run in progress, waiting for a task, task offered but not started, computing, task done,
// thread ending.
enum { OVER, WAITS, OFFERED, BUSY, DONE, CLOSED };

struct slc_helper {
	int32_t state; // accessed atomically; set to and from OVER under the mutex, which wakes the thread
	int32_t isa, code;
	slc_task_fn *task;
	union {
		slc_linear product;
		slc_attention attention;
	} arguments;
	slc_error error;
	int64_t done; // tasks computed in this run
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t change;
};

int32_t slc_product_f32(int32_t isa, const void *l, slc_error *error) { return slc_linear_f32(isa, l, error); }
int32_t slc_product_i8(int32_t isa, const void *l, slc_error *error) { return slc_linear_i8(isa, l, error); }
int32_t slc_heads_f32(int32_t isa, const void *a, slc_error *error) { return slc_attention_f32(isa, a, error); }
int32_t slc_heads_bf16(int32_t isa, const void *a, slc_error *error) { return slc_attention_bf16(isa, a, error); }

static void relax(void) {
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static int32_t now(const slc_helper *h) { return __atomic_load_n(&h->state, __ATOMIC_ACQUIRE); }

static void become(slc_helper *h, int32_t state) { __atomic_store_n(&h->state, state, __ATOMIC_RELEASE); }

static int change(slc_helper *h, int32_t from, int32_t to) {
	return __atomic_compare_exchange_n(&h->state, &from, to, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

// sleep_until_run returns true when a run begins, false when the thread must end.
static int sleep_until_run(slc_helper *h) {
	pthread_mutex_lock(&h->mutex);
	while (now(h) == OVER) pthread_cond_wait(&h->change, &h->mutex);
	pthread_mutex_unlock(&h->mutex);
	return now(h) != CLOSED;
}

static void *help(void *helper) {
	slc_helper *h = helper;
	while (sleep_until_run(h))
		for (int32_t state = now(h); state != OVER && state != CLOSED; state = now(h)) {
			if (state == OFFERED && change(h, OFFERED, BUSY)) {
				h->code = h->task(h->isa, &h->arguments, &h->error);
				h->done++;
				become(h, DONE);
			} else relax();
		}
	return NULL;
}

static void wake(slc_helper *h, int32_t state) {
	pthread_mutex_lock(&h->mutex);
	become(h, state);
	pthread_cond_signal(&h->change);
	pthread_mutex_unlock(&h->mutex);
}

slc_helper *slc_helper_open(void) {
	slc_helper *h = calloc(1, sizeof *h);
	if (!h) return NULL;
	pthread_mutex_init(&h->mutex, NULL);
	pthread_cond_init(&h->change, NULL);
	// Signals are for Go's threads, except those for a fault of this thread.
	const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
	sigset_t others, before;
	sigfillset(&others);
	for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&others, faults[i]);
	pthread_sigmask(SIG_SETMASK, &others, &before);
	const int failed = pthread_create(&h->thread, NULL, help, h);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!failed) return h;
	free(h);
	return NULL;
}

void slc_helper_close(slc_helper *h) {
	wake(h, CLOSED);
	pthread_join(h->thread, NULL);
	pthread_cond_destroy(&h->change);
	pthread_mutex_destroy(&h->mutex);
	free(h);
}

void slc_helper_begin(slc_helper *h) {
	h->done = 0;
	wake(h, WAITS);
}

void slc_helper_end(slc_helper *h) { become(h, OVER); }

int64_t slc_helper_done(const slc_helper *h) { return h->done; }

int32_t slc_share(slc_helper *h, slc_task_fn *task, int32_t isa, const void *whole, const void *mine, const void *its,
                  int64_t size, slc_error *error) {
	if (!h || now(h) != WAITS) return task(isa, whole, error);
	h->task = task, h->isa = isa;
	memcpy(&h->arguments, its, size);
	become(h, OFFERED);
	int32_t code = task(isa, mine, error), other = SLC_OK;
	if (change(h, OFFERED, BUSY)) { // not started
		if (!code) code = task(isa, its, error);
	} else {
		for (int64_t polls = 1; now(h) != DONE; polls++) {
			relax();
			if (polls % 1000 == 0) sched_yield(); // its thread may wait for this processor
		}
		other = h->code;
		if (!code && other && error) *error = h->error;
	}
	become(h, WAITS);
	return code ? code : other;
}
