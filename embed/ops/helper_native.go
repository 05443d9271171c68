//go:build native

package ops

// #include "ops.h"
import "C"

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/sluice-rag/sluice/kernels/cpu"
)

// helpers is how many runs of a domain can have a helper at a time; others go without.
const helpers = 8

// helper is another thread for a run, which computes the second half of the panels of each product. It polls for the
// next one instead of sleeping: a product of a question takes less time than waking a thread. Rows have the same bits
// with and without.
type helper struct {
	state   int32        // numbered like ops.h; by atomic operations, also in C
	holders atomic.Int32 // the run and the goroutine, until both are done with it
	product cpu.Linear
	scratch []float32
	err     error
	late    bool // the run has waited too long for it
	kernels cpu.Kernels
}

// Where other processes want the cores, a run waits some milliseconds for a helper that has lost its core, or loses its
// own because of the helper, and takes longer than alone. Then runs go without a helper for a while: for leastPause at
// first, so that a single such case costs nothing, and twice as long for each further one, to mostPause.
const (
	tooLate    = 200 * time.Microsecond // for a helper beyond what the own half takes, and without a core in a run
	leastPause = 100 * time.Microsecond
	mostPause  = time.Second
)

// pauses are those of a domain.
type pauses struct {
	mu     sync.Mutex
	end    time.Time
	length time.Duration // of the last one; an eighth shorter after each run with a helper that was no such case
}

func (p *pauses) paused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.end.IsZero() && time.Now().Before(p.end)
}

// note takes in a run with a helper, and whether it is a case for a pause.
func (p *pauses) note(late bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if late {
		p.length = min(max(2*p.length, leastPause), mostPause)
		p.end = time.Now().Add(p.length)
	} else if p.length -= p.length / 8; p.length < leastPause {
		p.length, p.end = 0, time.Time{}
	}
}

// WithHelper calls run, which runs a session of the domain on this thread, and has another goroutine compute beside it.
// That one calls leave from time to time and ends where it is true, and calls gone in the end, perhaps after WithHelper
// has returned. Where no helper is left, or they have been late, gone is called first and run goes without.
func (d *Domain) WithHelper(leave func() bool, gone func(), run func() error) error {
	for i := range d.helpers {
		if d.pauses.paused() {
			break
		}
		h := &d.helpers[i]
		if !h.holders.CompareAndSwap(0, 2) {
			continue
		}
		h.kernels, h.late = d.kernels, false
		atomic.StoreInt32(&h.state, C.SLC_HELPER_WAITS)
		go func() {
			h.help(leave)
			h.holders.Add(-1)
			gone()
		}()
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		C.slc_ops_set_helper(C.int32_t(i + 1))
		begun, computed := time.Now(), C.slc_ops_computed()
		defer func() {
			waited := time.Since(begun) - time.Duration(C.slc_ops_computed()-computed)
			d.pauses.note(h.late || waited > tooLate)
			h.end()
		}()
		defer C.slc_ops_set_helper(0)
		return run()
	}
	gone()
	return run()
}

// polls is how often a helper looks for a product before it asks whether to leave: some 50 µs.
const polls = 1000

// help computes products until the run ends or somebody else wants the thread.
func (h *helper) help(leave func() bool) {
	for {
		switch C.slc_ops_poll((*C.int32_t)(unsafe.Pointer(&h.state)), polls) {
		case C.SLC_HELPER_OVER:
			return
		case C.SLC_HELPER_OFFERED:
			if atomic.CompareAndSwapInt32(&h.state, C.SLC_HELPER_OFFERED, C.SLC_HELPER_BUSY) {
				h.err = h.kernels.Linear(&h.product)
				atomic.StoreInt32(&h.state, C.SLC_HELPER_DONE)
			}
		case C.SLC_HELPER_WAITS:
			if leave() && atomic.CompareAndSwapInt32(&h.state, C.SLC_HELPER_WAITS, C.SLC_HELPER_OVER) {
				return
			}
		}
	}
}

// end tells the helper that the run is over; no product is under way.
func (h *helper) end() {
	atomic.StoreInt32(&h.state, C.SLC_HELPER_OVER)
	h.holders.Add(-1)
}

// share computes a product, half of it by the helper if that one is there by then.
func (h *helper) share(p *cpu.Linear) error {
	middle, last := (p.First+p.Last+1)/2, p.Last
	if middle < last && atomic.LoadInt32(&h.state) == C.SLC_HELPER_WAITS {
		h.product = *p
		h.product.First, h.product.AfterPanel = middle, (p.After.Panels()+1)/2
		if need := len(p.Scratch); len(h.scratch) < need {
			h.scratch = make([]float32, need)
		}
		h.product.Scratch = h.scratch
		if atomic.CompareAndSwapInt32(&h.state, C.SLC_HELPER_WAITS, C.SLC_HELPER_OFFERED) {
			p.Last = middle
			begun := time.Now()
			err := h.kernels.Linear(p)
			if other := h.collect(time.Since(begun) + tooLate); err == nil {
				err = other
			}
			return err
		}
	}
	return h.kernels.Linear(p)
}

// collect waits for the helper's half, which should take no longer than patience, or computes it where the helper has
// not begun.
func (h *helper) collect(patience time.Duration) (err error) {
	if atomic.CompareAndSwapInt32(&h.state, C.SLC_HELPER_OFFERED, C.SLC_HELPER_BUSY) {
		err = h.kernels.Linear(&h.product)
	} else {
		begun := time.Now()
		for atomic.LoadInt32(&h.state) != C.SLC_HELPER_DONE { // also says to the race detector what C has waited for
			C.slc_ops_wait((*C.int32_t)(unsafe.Pointer(&h.state)))
		}
		h.late = h.late || time.Since(begun) > patience
		err = h.err
	}
	h.product = cpu.Linear{} // no pointers to memory that is ONNX Runtime's
	atomic.StoreInt32(&h.state, C.SLC_HELPER_WAITS)
	return err
}
