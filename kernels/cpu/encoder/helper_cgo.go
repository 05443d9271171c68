//go:build cgo && (amd64 || arm64)

package encoder

/*
#cgo noescape slc_helper_begin
#cgo nocallback slc_helper_begin
#cgo noescape slc_helper_end
#cgo nocallback slc_helper_end
#include "helper.h"
*/
import "C"

// Helper is a second thread for a run, that is, the calls of one thread: it computes the second half of the panels of a
// product and of the heads of an attention that name it. During a run it polls instead of sleeping, because a product
// of a question takes less time than waking a thread. Results have the same bits with and without it. A Helper is used
// by one run at a time; Close ends its thread.
type Helper struct {
	thread  *C.slc_helper // nil: no thread could be started, and the caller computes everything
	scratch []float32
}

// NewHelper starts the thread, which sleeps.
func NewHelper() *Helper { return &Helper{thread: C.slc_helper_open()} }

// Close ends the thread.
func (h *Helper) Close() {
	if h.thread != nil {
		C.slc_helper_close(h.thread)
	}
	h.thread = nil
}

// Begin begins a run, on the run's thread.
func (h *Helper) Begin() {
	if h.thread != nil {
		C.slc_helper_begin(h.thread)
	}
}

// End ends the run, on its thread: later calls that name the helper are computed without it.
func (h *Helper) End() {
	if h.thread != nil {
		C.slc_helper_end(h.thread)
	}
}

// Done returns the number of halves computed since Begin.
func (h *Helper) Done() int {
	if h.thread == nil {
		return 0
	}
	return int(C.slc_helper_done(h.thread))
}

// room returns scratch of n values for the helper's part.
func (h *Helper) room(n int) []float32 {
	if len(h.scratch) < n {
		h.scratch = make([]float32, n)
	}
	return h.scratch
}
