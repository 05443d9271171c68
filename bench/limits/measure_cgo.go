//go:build cgo && linux && (amd64 || arm64)

package limits

// #cgo CFLAGS: -O2 -std=c11 -Wall -Wextra
// #include "limits.h"
import "C"

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sluice-rag/sluice/kernels"
)

const tries = 5

func measure(ctx context.Context, threads int, memory int64) (Limits, error) {
	l := Limits{Threads: threads}
	kinds, wide := units()
	for _, k := range []struct {
		kind C.int
		to   *float64
	}{
		{C.LIM_FMA_BASE, &l.FMABase}, {C.LIM_FMA_AVX2, &l.FMAAVX2}, {C.LIM_FMA_AVX512, &l.FMAAVX512},
		{C.LIM_VNNI, &l.VNNI}, {C.LIM_AMX_BF16, &l.AMXBF16}, {C.LIM_AMX_I8, &l.AMXI8},
	} {
		if !kinds[int(k.kind)] {
			continue
		}
		iterations := C.int64_t(1 << 22) // some 20 ms
		if k.kind == C.LIM_AMX_BF16 || k.kind == C.LIM_AMX_I8 {
			iterations >>= 2
		}
		*k.to = best(ctx, threads, func(int) float64 { return float64(C.lim_compute(k.kind, iterations)) })
	}
	read, err := readSpeed(ctx, threads, memory, wide)
	l.Read = read
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return l, err
}

// best returns the highest total rate of threads that do the same at the same time.
func best(ctx context.Context, threads int, work func(thread int) float64) (rate float64) {
	done := make([]float64, threads)
	for range tries {
		if ctx.Err() != nil {
			return rate
		}
		var ready, finished sync.WaitGroup
		start := make(chan struct{})
		ready.Add(threads)
		for t := range threads {
			finished.Go(func() {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				work(t) // wakes the units and the clock
				ready.Done()
				<-start
				done[t] = work(t)
			})
		}
		ready.Wait()
		begin := time.Now()
		close(start)
		finished.Wait()
		took := time.Since(begin).Seconds()
		total := 0.0
		for _, d := range done {
			total += d
		}
		rate = max(rate, total/took)
	}
	return rate
}

func readSpeed(ctx context.Context, threads int, memory int64, wide int) (float64, error) {
	share := memory / int64(threads) &^ 4095
	m, err := unix.Mmap(-1, 0, int(share)*threads, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return 0, fmt.Errorf("limits: %w: %d bytes to read: %w", kernels.ErrMemoryLimit, memory, err)
	}
	defer unix.Munmap(m)
	_ = unix.Madvise(m, unix.MADV_HUGEPAGE) // a hint; small pages read a little slower
	for i := 0; i < len(m); i += 4096 {     // pages that were never written share one page of zeros
		m[i] = 1
	}
	return best(ctx, threads, func(t int) float64 {
		part := m[int64(t)*share:][:share]
		C.lim_read(unsafe.Pointer(&part[0]), C.size_t(share), C.int(wide))
		return float64(share)
	}), nil
}
