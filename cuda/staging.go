//go:build native && cgo && linux && (amd64 || arm64)

package cuda

import (
	"cmp"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/sluice-rag/sluice/cuda/internal/driver"
)

const (
	stagingMin      = 4096
	stagingAlign    = 256
	stagingSegments = 16 // concurrent copies
	// stagingParts is how many pieces of a long copy fit: one is filled while another is copied.
	stagingParts = 4
	// polls is how often an event is polled, some tens of microseconds, before the thread sleeps.
	polls = 64
)

// ordering holds events that streams wait for.
const ordering = cu.DisableTiming | cu.BlockingSyncEvent

// segment is a part of the staging memory that a copy uses until its event completes.
type segment struct {
	from, to int
	event    cu.Event
}

// staging is a ring of pinned host memory. Segments are allocated in order of address and released in order of time,
// because all copies use one stream.
type staging struct {
	memory  unsafe.Pointer
	bytes   []byte
	head    int
	busy    [stagingSegments]segment // a ring
	first   int
	n       int
	created int // number of events
}

func (g *staging) open(bytes int) error {
	bytes &^= stagingAlign - 1
	p, err := driver.HostAlloc(bytes)
	if err != nil {
		return check("cuMemHostAlloc", err)
	}
	g.memory, g.bytes = p, unsafe.Slice((*byte)(p), bytes)
	for i := range g.busy {
		if g.busy[i].event, err = cu.MakeEvent(ordering); err != nil {
			return check("cuEventCreate", err)
		}
		g.created++
	}
	return nil
}

func (g *staging) close() error {
	var first error
	for i := range g.created {
		first = cmp.Or(first, check("cuEventDestroy", cu.DestroyEvent(&g.busy[i].event)))
	}
	if g.memory != nil {
		first = cmp.Or(first, check("cuMemFreeHost", cu.MemFreeHost(g.memory)))
	}
	*g = staging{}
	return first
}

// part is the maximum size of a segment.
func (g *staging) part() int { return max(len(g.bytes)/stagingParts&^(stagingAlign-1), stagingAlign) }

// take returns a segment of n ≤ part() bytes, after waiting for the copies that still use its memory.
func (s *Stream) take(n int) (*segment, error) {
	g := &s.staging
	n = (n + stagingAlign - 1) &^ (stagingAlign - 1)
	from := g.head
	if from+n > len(g.bytes) {
		from = 0
	}
	for g.n > 0 {
		if g.n < stagingSegments && !g.overlap(from, from+n) {
			break
		}
		if err := s.retire(); err != nil {
			return nil, err
		}
	}
	x := &g.busy[(g.first+g.n)%stagingSegments]
	x.from, x.to = from, from+n
	g.n++
	g.head = from + n
	return x, nil
}

func (g *staging) overlap(from, to int) bool {
	for i := range g.n {
		x := &g.busy[(g.first+i)%stagingSegments]
		if x.from < to && from < x.to {
			return true
		}
	}
	return false
}

// retire waits for the oldest copy in flight.
func (s *Stream) retire() error {
	g := &s.staging
	err := s.await(g.busy[g.first].event)
	g.first = (g.first + 1) % stagingSegments
	g.n--
	return err
}

// notReady is the driver's code for an event that has not completed.
const notReady = 600

// await waits for an event: it polls first, because most copies are short, then sleeps.
func (s *Stream) await(e cu.Event) error {
	for range polls {
		err := e.Query()
		if err == nil {
			return nil
		}
		if err := check("cuEventQuery", err); err.(*Error).Code != notReady {
			return s.broken(err)
		}
	}
	return s.check("cuEventSynchronize", e.Synchronize())
}
