//go:build native && cgo && linux && (amd64 || arm64)

package cuda

import (
	"errors"
	"fmt"
	"sync"

	"gorgonia.org/cu"
)

// Module is an image loaded on a device. Closing the device unloads it.
type Module struct {
	d      *Device
	part   ImagePart
	module cu.Module
	mu     sync.Mutex
	byName map[string]*kernel
}

type kernel struct {
	d        *Device
	name     string
	function cu.Function
	shared   int // bytes of dynamic shared memory allowed so far; used on the device's thread
}

// Kernel is a function of an image, on the device that loaded the image.
type Kernel struct{ *kernel }

// Name returns the kernel's name.
func (k Kernel) Name() string { return k.name }

// Load loads an image (a fat binary); the driver selects the part that fits. If there is none, the error lists the
// parts; if only the driver is too old, it is a *TooOldError.
func (d *Device) Load(image []byte) (*Module, error) {
	parts, err := ImageParts(image)
	if err != nil {
		return nil, err
	}
	m := &Module{d: d, byName: map[string]*kernel{}}
	if m.part, err = Fits(parts, d.info.Capability, d.info.DriverVersion); err != nil {
		return nil, err
	}
	err = d.onThread(func(s *Stream) error {
		if s.lost != nil {
			return s.lost
		}
		if m.module, err = cu.LoadData(string(image)); err != nil {
			return fmt.Errorf("image for %v: %w", m.part, s.check("cuModuleLoadData", err))
		}
		s.modules[m] = struct{}{}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Part returns the part of the image that runs on the device.
func (m *Module) Part() ImagePart { return m.part }

// Kernel returns the kernel with that name.
func (m *Module) Kernel(name string) (Kernel, error) {
	m.mu.Lock()
	k := m.byName[name]
	m.mu.Unlock()
	if k != nil {
		return Kernel{k}, nil
	}
	k = &kernel{d: m.d, name: name}
	err := m.d.onThread(func(s *Stream) error {
		var err error
		if k.function, err = m.module.Function(name); err != nil {
			return s.check("cuModuleGetFunction", err)
		}
		return nil
	})
	var e *Error
	if errors.As(err, &e) && e.Code == codeNotFound {
		return Kernel{}, fmt.Errorf("cuda: the image has no kernel %q: %w", name, err)
	}
	if err != nil {
		return Kernel{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if first := m.byName[name]; first != nil { // another goroutine added it at the same time
		return Kernel{first}, nil
	}
	m.byName[name] = k
	return Kernel{k}, nil
}
