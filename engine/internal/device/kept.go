package device

import (
	"context"
	"slices"
	"sync"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// Kept holds packed sets of one operand for later operations, within a limit of bytes; the one that was not used for
// longest goes first. It belongs to one device.
type Kept struct {
	device Device

	mu     sync.Mutex
	limit  int64
	used   int64
	closed bool
	sets   []*keptSet // the one used last at the end

	resident any // the device's copy of all rows, once an operation held it; freed when closed and unused
	holders  int
}

// packing says how a set was packed.
type packing struct {
	side   Side
	dtype  kernels.DType
	metric kernels.Metric
	scale  float64
	order  []int32
}

type keptSet struct {
	packing
	set   Set
	bytes int64
	users int
}

// NewKept makes room for that many bytes of sets on d.
func NewKept(d Device, limit int64) *Kept { return &Kept{device: d, limit: limit} }

// Bytes is what the sets take at the moment.
func (k *Kept) Bytes() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.used
}

// Close frees what nobody uses, and the rest when its users are done.
func (k *Kept) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	k.evict(0)
	k.release()
}

// Closed tells whether Close was called.
func (k *Kept) Closed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.closed
}

// hold is the device's copy of the rows, which stays for later operations, and the end of its use. It is nil after
// Close, and where the device needs none.
func (k *Kept) hold(rows cpu.Rows) (resident any, end func(), err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil, nil, nil
	}
	if k.resident == nil {
		if k.resident, err = k.device.Upload(rows); err != nil || k.resident == nil {
			return nil, nil, err
		}
	}
	k.holders++
	return k.resident, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.holders--
		k.release()
	}, nil
}

// release frees the copy of the rows when it will not be used again.
func (k *Kept) release() {
	if k.closed && k.holders == 0 && k.resident != nil {
		k.device.Release(k.resident)
		k.resident = nil
	}
}

// evict frees unused sets until no more than room bytes are left, if it can.
func (k *Kept) evict(room int64) {
	k.sets = slices.DeleteFunc(k.sets, func(s *keptSet) bool {
		if k.used <= room || s.users > 0 {
			return false
		}
		k.used -= s.bytes
		k.device.Free(s.set)
		return true
	})
}

// find is a set that was packed that way, and the end of its use.
func (k *Kept) find(p packing) (Set, func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, s := range k.sets {
		same := s.side == p.side && s.dtype == p.dtype && s.metric == p.metric && s.scale == p.scale
		if same && slices.Equal(s.order, p.order) {
			k.sets = append(slices.Delete(k.sets, i, i+1), s)
			return s.set, k.begin(s)
		}
	}
	return nil, nil
}

func (k *Kept) begin(s *keptSet) (end func()) {
	s.users++
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if s.users--; k.closed {
			k.evict(0)
		}
	}
}

// add keeps a set if there is room for it; else it stays the caller's.
func (k *Kept) add(p packing, set Set, bytes int64) (end func(), ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || bytes > k.limit {
		return nil, false
	}
	if k.evict(k.limit - bytes); k.used > k.limit-bytes {
		return nil, false
	}
	p.order = slices.Clone(p.order)
	s := &keptSet{packing: p, set: set, bytes: bytes}
	k.sets, k.used = append(k.sets, s), k.used+bytes
	return k.begin(s), true
}

// Packed is all of o as a set, vector i being row order[i] (nil: row i): packed now, or kept from before where o
// belongs to a prepared set. release ends its use.
func (r *Resources) Packed(ctx context.Context, o *Operand, side Side, t kernels.DType, m kernels.Metric, scale float64,
	order []int32) (
	s Set, release func(), err error) {
	how := packing{side, t, m, scale, order}
	kept := o.Kept
	if kept != nil && kept.device != r.Device {
		kept = nil
	}
	if kept != nil {
		if s, release := kept.find(how); s != nil {
			return s, release, nil
		}
	}
	if s, err = r.New(side, t, m, o.N, o.Dim, scale); err != nil {
		return nil, nil, err
	}
	if err := r.PackAll(ctx, s, o.Rows, order); err != nil {
		r.Free(s)
		return nil, nil, err
	}
	if kept != nil {
		if end, ok := kept.add(how, s, r.Bytes(t, o.N, o.Dim)+4*int64(len(order))); ok {
			return s, end, nil
		}
	}
	return s, func() { r.Free(s) }, nil
}
