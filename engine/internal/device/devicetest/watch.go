package devicetest

import (
	"context"
	"runtime"
	"strings"
	"sync"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// Watch counts the work that an operation does once its context has ended, and without looking at the context: calls of
// the device that compute. Looks and calls are numbered from 1 as they come; the context ends at one of them.
type Watch struct {
	at     int // number that ends the context; 0: none
	stages bool

	mu     sync.Mutex
	ended  bool
	number int
	blind  int            // calls since the last look
	count  Work           // what has been counted
	seen   map[string]int // looks by function: all on the stack
}

// Work is the work that a Watch has counted.
type Work struct {
	Events     int // looks and calls
	CallsAfter int // calls of the device that began after the end
	LooksAfter int
	Blind      int // calls that came between two looks, at most
}

// NewWatch returns a watch whose context ends at that look or call, 0: never. With stages it remembers who looked.
func NewWatch(at int, stages bool) *Watch {
	return &Watch{at: at, stages: stages, seen: map[string]int{}}
}

// Count returns the work counted so far.
func (w *Watch) Count() Work {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count
}

// Looks returns how often a function, or what it called, has looked at the context. It is named without its package.
func (w *Watch) Looks(function string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[function]
}

func (w *Watch) event() {
	w.number++
	w.count.Events = w.number
	if w.number == w.at {
		w.ended = true
	}
}

func (w *Watch) look() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		w.count.LooksAfter++
		return context.Canceled
	}
	w.blind = 0
	if w.stages {
		w.remember()
	}
	if w.event(); w.ended {
		return context.Canceled
	}
	return nil
}

func (w *Watch) call() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		w.count.CallsAfter++
		return
	}
	w.blind++
	w.count.Blind = max(w.count.Blind, w.blind)
	w.event()
}

// remember notes the functions that led to a look.
func (w *Watch) remember() {
	var at [32]uintptr
	frames := runtime.CallersFrames(at[:runtime.Callers(4, at[:])])
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		name := f.Function[strings.LastIndexByte(f.Function, '/')+1:]
		name = strings.TrimSuffix(name, "[...]")
		if _, function, ok := strings.Cut(name, "."); ok {
			name = function
		}
		if _, method, ok := strings.Cut(name, ")."); ok {
			name = method
		}
		name, _, _ = strings.Cut(name, ".") // and not which function inside it
		w.seen[name]++
	}
}

// Context returns the watch's context within another.
func (w *Watch) Context(parent context.Context) context.Context { return watched{parent, w} }

type watched struct {
	context.Context
	w *Watch
}

func (c watched) Err() error { return c.w.look() }

// Device counts the calls of another device.
func (w *Watch) Device(d device.Device) device.Device { return counted{d, w} }

type counted struct {
	device.Device
	w *Watch
}

func (d counted) Pack(s device.Set, rows cpu.Rows, order []int32, from, to int) error {
	d.w.call()
	return d.Device.Pack(s, rows, order, from, to)
}

func (d counted) Count(c *device.Count, rows device.Set, row0, row1 int, lanes device.Set, lane0, lane1 int) error {
	d.w.call()
	return d.Device.Count(c, rows, row0, row1, lanes, lane0, lane1)
}

func (d counted) Matrix(out []float32, stride int, rows device.Set, row0, row1 int, lanes device.Set, lane0,
	lane1 int) error {
	d.w.call()
	return d.Device.Matrix(out, stride, rows, row0, row1, lanes, lane0, lane1)
}

func (d counted) Scores(m kernels.Metric, out []float64, stride int, a, b cpu.Rows) error {
	d.w.call()
	return d.Device.Scores(m, out, stride, a, b)
}

func (d counted) Pairs(m kernels.Metric, out []float64, a cpu.Rows, rowsA []int32, b cpu.Rows, rowsB []int32) error {
	d.w.call()
	return d.Device.Pairs(m, out, a, rowsA, b, rowsB)
}
