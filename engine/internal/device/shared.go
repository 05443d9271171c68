package device

import "errors"

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

// Kept returns how many bytes prepared sets take in the device's memory, and the limit.
func (s *Shared) Kept() (bytes, limit int64) {
	s.kept.mu.Lock()
	defer s.kept.mu.Unlock()
	return s.kept.used, s.kept.limit
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

// Describe implements Device.
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

// Describe implements Device.
func (n *named) Describe() Info {
	i := n.Device.Describe()
	i.Name = n.name
	return i
}
