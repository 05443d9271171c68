//go:build native

package ops

// #include "ops.h"
import "C"

import (
	"runtime"
	"sync/atomic"
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
	kernels cpu.Kernels
}

// WithHelper calls run, which runs a session of the domain on this thread, and has another goroutine compute beside it.
// That one calls leave from time to time and ends where it is true, and calls gone in the end, perhaps after WithHelper
// has returned. Where no helper is left, gone is called first and run goes without.
func (d *Domain) WithHelper(leave func() bool, gone func(), run func() error) error {
	for i := range d.helpers {
		h := &d.helpers[i]
		if !h.holders.CompareAndSwap(0, 2) {
			continue
		}
		h.kernels = d.kernels
		atomic.StoreInt32(&h.state, C.SLC_HELPER_WAITS)
		go func() {
			h.help(leave)
			h.holders.Add(-1)
			gone()
		}()
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		C.slc_ops_set_helper(C.int32_t(i + 1))
		defer h.end()
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
			err := h.kernels.Linear(p)
			if other := h.collect(); err == nil {
				err = other
			}
			return err
		}
	}
	return h.kernels.Linear(p)
}

// collect waits for the helper's half, or computes it where the helper has not begun.
func (h *helper) collect() (err error) {
	if atomic.CompareAndSwapInt32(&h.state, C.SLC_HELPER_OFFERED, C.SLC_HELPER_BUSY) {
		err = h.kernels.Linear(&h.product)
	} else {
		for atomic.LoadInt32(&h.state) != C.SLC_HELPER_DONE { // also says to the race detector what C has waited for
			C.slc_ops_wait((*C.int32_t)(unsafe.Pointer(&h.state)))
		}
		err = h.err
	}
	h.product = cpu.Linear{} // no pointers to memory that is ONNX Runtime's
	atomic.StoreInt32(&h.state, C.SLC_HELPER_WAITS)
	return err
}
