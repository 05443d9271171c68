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

// Helper is a second thread for a run, the calls of another one: it computes the second half of the panels of a product
// and of the heads of an attention that name it. During a run it polls instead of sleeping: a product of a question
// takes less time than waking a thread. Rows have the same bits with and without. A Helper is used by one run at a
// time, and Close ends it.
type Helper struct {
	thread  *C.slc_helper // nil: none was to be had, and nobody helps
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

// End ends the help, on the run's thread: what names the helper from here on is computed without.
func (h *Helper) End() {
	if h.thread != nil {
		C.slc_helper_end(h.thread)
	}
}

// Done is how many halves it has computed since Begin.
func (h *Helper) Done() int {
	if h.thread == nil {
		return 0
	}
	return int(C.slc_helper_done(h.thread))
}

// room is scratch of n values for what it computes.
func (h *Helper) room(n int) []float32 {
	if len(h.scratch) < n {
		h.scratch = make([]float32, n)
	}
	return h.scratch
}
