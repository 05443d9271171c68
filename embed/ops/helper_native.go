//go:build native

package ops

// #include "ops.h"
import "C"

import (
	"runtime"
	"sync/atomic"

	"github.com/sluice-rag/sluice/kernels/cpu/encoder"
)

// helpers is how many runs of a domain can have a helper at a time; others go without.
const helpers = 8

// helper is a thread that computes beside a run.
type helper struct {
	*encoder.Helper
	taken atomic.Bool // by a run
	leave func() bool // whether somebody else wants the thread; nil: it has left
	gone  func()
}

// WithHelper calls run, which runs a session of the domain on this thread, with another thread beside it. That one
// leaves the run before an operator if leave is true then, else when the run is over, and gone is called once it does.
// Where no helper is left, gone is called first and run goes without.
func (d *Domain) WithHelper(leave func() bool, gone func(), run func() error) error {
	place := d.takeHelper()
	if place < 0 {
		gone()
		return run()
	}
	h := &d.helpers[place]
	h.leave, h.gone = leave, gone
	h.Begin()
	runtime.LockOSThread()
	C.slc_ops_set_helper(C.int32_t(place + 1))
	defer func() {
		C.slc_ops_set_helper(0)
		runtime.UnlockOSThread()
		h.end()
		h.taken.Store(false)
	}()
	return run()
}

// takeHelper returns the place of a helper that no other run has; -1: none.
func (d *Domain) takeHelper() int {
	for i := range d.helpers {
		h := &d.helpers[i]
		if !h.taken.CompareAndSwap(false, true) {
			continue
		}
		if h.Helper == nil {
			h.Helper = encoder.NewHelper()
		}
		return i
	}
	return -1
}

// leaveIfAsked has the helper leave the run where somebody else wants its thread.
func (h *helper) leaveIfAsked() {
	if h.leave != nil && h.leave() {
		h.end()
	}
}

func (h *helper) end() {
	if h.leave == nil {
		return
	}
	h.End()
	h.leave = nil
	h.gone()
}

// closeHelpers ends their threads; no run is under way.
func (d *Domain) closeHelpers() {
	for i := range d.helpers {
		if h := d.helpers[i].Helper; h != nil {
			h.Close()
		}
	}
}
