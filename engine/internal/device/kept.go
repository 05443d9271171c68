package device

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/sluice-rag/sluice/kernels"
)

// Kept holds packed sets, and copies of the rows, of one operand for later operations: in the process's memory within a
// limit of its own, on each device with memory of its own within that device's limit (Shared). Where there is no room,
// what was not used for longest goes first.
type Kept struct {
	mu     sync.Mutex
	own    keep // of devices that take the process's memory
	shared []*keep
	closed bool

	uploads sync.Mutex // one copy of the rows is made at a time
}

// keep is what is kept in one memory, by one operand or by all that share a device.
type keep struct {
	mu    sync.Mutex
	limit int64
	used  int64
	items []*item // the one used last at the end
}

// item is a packed set, or a copy of rows.
type item struct {
	packing
	owner  *Kept
	device Device
	set    Set // nil: a copy of rows
	copied any
	bytes  int64
	users  int
	dead   bool // to be freed when nobody uses it
}

// packing says how a set was packed.
type packing struct {
	side   Side
	dtype  kernels.DType
	metric kernels.Metric
	scale  float64
	order  []int32
	head   int // of codes
}

// NewKept makes room for that many bytes of sets in the process's memory.
func NewKept(limit int64) *Kept { return &Kept{own: keep{limit: limit}} }

// in returns where what is on that device is kept; nil after Close.
func (k *Kept) in(d Device) *keep {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil
	}
	s, ok := d.(*Shared)
	if !ok {
		return &k.own
	}
	if !slices.Contains(k.shared, &s.kept) {
		k.shared = append(k.shared, &s.kept)
	}
	return &s.kept
}

// Bytes returns how much is kept now, in bytes; of the given devices, else of all.
func (k *Kept) Bytes(of ...Device) (bytes int64) {
	for _, s := range k.all() {
		s.mu.Lock()
		for _, x := range s.items {
			if x.owner == k && (len(of) == 0 || slices.Contains(of, x.device)) {
				bytes += x.bytes
			}
		}
		s.mu.Unlock()
	}
	return bytes
}

func (k *Kept) all() []*keep {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]*keep{&k.own}, k.shared...)
}

// Close frees what nobody uses, and the rest when its users are done.
func (k *Kept) Close() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	for _, s := range k.all() {
		s.mu.Lock()
		for _, x := range s.items {
			x.dead = x.dead || x.owner == k
		}
		s.evict(s.limit)
		s.mu.Unlock()
	}
}

// Closed reports whether Close was called.
func (k *Kept) Closed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.closed
}

// evict frees what is dead, and unused items until no more than room bytes are left, if it can. s.mu is held.
func (s *keep) evict(room int64) {
	s.items = slices.DeleteFunc(s.items, func(x *item) bool {
		if x.users > 0 || !x.dead && s.used <= room {
			return false
		}
		s.used -= x.bytes
		x.free()
		return true
	})
}

// fits makes room for so many more bytes, if it can. s.mu is held.
func (s *keep) fits(bytes int64) bool {
	if bytes > s.limit {
		return false
	}
	s.evict(s.limit - bytes)
	return s.used <= s.limit-bytes
}

// begin notes a user of x; s.mu is held.
func (s *keep) begin(x *item) (end func()) {
	x.users++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		x.users--
		s.evict(s.limit)
	}
}

// find returns the kept item that equals like, and a function that ends its use.
func (s *keep) find(like *item) (x *item, end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, x := range s.items {
		same := x.owner == like.owner && x.device == like.device && !x.dead &&
			(x.copied != nil) == (like.copied != nil) &&
			x.side == like.side && x.dtype == like.dtype && x.metric == like.metric && x.scale == like.scale &&
			x.head == like.head
		if same && slices.Equal(x.order, like.order) {
			s.items = append(slices.Delete(s.items, i, i+1), x)
			return x, s.begin(x)
		}
	}
	return nil, nil
}

// add keeps an item if there is room for it; else it stays the caller's.
func (s *keep) add(x *item) (end func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x.owner.Closed() || !s.fits(x.bytes) {
		return nil, false
	}
	s.items, s.used = append(s.items, x), s.used+x.bytes
	return s.begin(x), true
}

// free gives an item's memory back.
func (x *item) free() {
	if x.set != nil {
		x.device.Free(x.set)
	} else {
		x.device.Release(x.copied)
	}
}

// obtain returns an item of an operand: one like x that was kept, or x itself once make has made it, which then stays
// for later operations if there is room. end ends its use; it is nil where make has made nothing.
func (r *Resources) obtain(o *Operand, x *item, make func() error) (_ *item, end func(), err error) {
	x.owner, x.device = o.Kept, Root(r.Device)
	var in *keep
	if o.Kept != nil {
		in = o.Kept.in(x.device)
	}
	if in != nil {
		if found, end := in.find(x); found != nil {
			return found, end, nil
		}
		if r.Describe().Memory > 0 { // what is not used gives way before the item is made
			in.mu.Lock()
			in.fits(x.bytes)
			in.mu.Unlock()
		}
	}
	x.copied = nil
	if err := make(); err != nil || x.set == nil && x.copied == nil {
		return nil, nil, err
	}
	if in != nil {
		if end, ok := in.add(x); ok {
			return x, end, nil
		}
	}
	return x, x.free, nil
}

// someRows stands for a copy of rows in a search for one.
var someRows any = struct{}{}

// Hold makes the device's own copy of an operand that is ready, unless it has one. The returned function ends that.
func (r *Resources) Hold(o *Operand) (release func(), err error) {
	release = func() {}
	if o.N == 0 || !o.Ready || o.Resident != nil {
		return release, nil
	}
	if o.Kept != nil { // one copy of the rows is made at a time
		o.Kept.uploads.Lock()
		defer o.Kept.uploads.Unlock()
	}
	x := &item{copied: someRows}
	if r.Describe().Memory > 0 {
		x.bytes = CopyBytes(o.N, o.Dim)
	}
	x, end, err := r.obtain(o, x, func() (err error) {
		x.copied, err = r.Upload(o.Rows)
		return err
	})
	if x == nil {
		return release, err
	}
	o.Resident = x.copied
	return func() { o.Resident = nil; end() }, nil
}

// CopyBytes returns the size of a device's copy of n rows.
func CopyBytes(n, dim int) int64 { return int64(n) * (4*int64(dim) + 8) }

// Packed is all of o as a set, vector i being row order[i] (nil: row i): packed now, or kept from before where o
// belongs to a prepared set. release ends its use.
func (r *Resources) Packed(ctx context.Context, o *Operand, side Side, t kernels.DType, m kernels.Metric, scale float64,
	order []int32) (
	s Set, release func(), err error) {
	x := &item{packing: packing{side: side, dtype: t, metric: m, scale: scale, order: order},
		bytes: r.Bytes(t, o.N, o.Dim) + 4*int64(len(order))}
	x, release, err = r.obtain(o, x, func() (err error) {
		if x.set, err = r.New(side, t, m, o.N, o.Dim, scale); err != nil {
			return err
		}
		x.order = slices.Clone(order)
		if err = r.PackAll(ctx, x.set, o.Rows, order); err != nil {
			x.free()
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return x.set, release, nil
}

// ErrMemory: the memory of a device does not do for what was asked of it. Devices wrap it.
var ErrMemory = errors.New("the device's memory is used up")

// Shared is a device with memory of its own that operations and prepared sets share: one half is for what prepared
// sets keep there, the other for the operations that run.
type Shared struct {
	Device
	memory int64 // of operations
	kept   keep
}

// Share lets d be used by operations and prepared sets.
func Share(d Device) *Shared {
	memory := d.Describe().Memory
	return &Shared{Device: d, memory: memory - memory/2, kept: keep{limit: memory / 2}}
}

// Describe implements Device: Memory is the limit of operations.
func (s *Shared) Describe() Info {
	i := s.Device.Describe()
	i.Memory = s.memory
	return i
}

// Evict frees what prepared sets have there and nobody uses.
func (s *Shared) Evict() {
	s.kept.mu.Lock()
	defer s.kept.mu.Unlock()
	s.kept.evict(0)
}

// limited is a device of which an operation takes less memory than there is.
type limited struct {
	Device
	memory int64
}

func (l limited) Describe() Info {
	i := l.Device.Describe()
	i.Memory = l.memory
	return i
}

// Limited is d for an operation that is to take no more than that many bytes of its memory.
func Limited(d Device, memory int64) Device { return limited{Root(d), memory} }

// Root returns the device that a limited one is a part of, or d.
func Root(d Device) Device {
	if l, ok := d.(limited); ok {
		return l.Device
	}
	return d
}

// named is a device under another name.
type named struct {
	Device
	name string
}

// Named is d under that name.
func Named(d Device, name string) Device { return &named{d, name} }

func (n *named) Describe() Info {
	i := n.Device.Describe()
	i.Name = n.name
	return i
}
