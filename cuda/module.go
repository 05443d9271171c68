//go:build native && cgo && linux && (amd64 || arm64)

package cuda

import (
	"errors"
	"fmt"
	"sync"

	"gorgonia.org/cu"

	"github.com/sluice-rag/sluice/cuda/internal/driver"
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

// Graph is a recorded sequence of launches and fills. Its memory must not be freed before the last Replay.
type Graph struct {
	d    *Device
	g    driver.Graph
	uses []uint64 // parameters of the launches
	gone bool
}

// Capture records the launches and fills of f instead of running them: a Replay of many small launches costs one call.
// Copies, Wait and Time cannot be recorded.
func (s *Stream) Capture(f func() error) (*Graph, error) {
	if s.recording != nil || s.measuring {
		return nil, fmt.Errorf("%w: Capture inside Capture or Time", ErrMisuse)
	}
	if err := s.computeBehind(s.copied); err != nil {
		return nil, err
	}
	if err := s.check("cuStreamBeginCapture", driver.BeginCapture(s.compute)); err != nil {
		return nil, err
	}
	g := &Graph{d: s.d}
	s.recording = g
	ended := false
	defer func() { // f may panic
		s.recording = nil
		if !ended {
			if r, err := driver.EndCapture(s.compute); err == nil {
				_ = r.Destroy() // the panic is reported instead
			}
		}
	}()
	err := f()
	ended = true
	recording, ending := driver.EndCapture(s.compute)
	if ending != nil {
		return nil, errors.Join(err, s.check("cuStreamEndCapture", ending))
	}
	if err == nil {
		if g.g, err = recording.Graph(); err == nil {
			s.graphs[g] = struct{}{}
		}
		err = s.check("cuGraphInstantiate", err)
	}
	if err = errors.Join(err, s.check("cuGraphDestroy", recording.Destroy())); err != nil {
		return nil, err // closing the device releases a graph that was created
	}
	return g, nil
}

// Replay queues the recorded work.
func (s *Stream) Replay(g *Graph) error {
	if g.gone || g.d != s.d || s.recording != nil {
		return fmt.Errorf("%w: Replay of a closed graph, one of another device, or inside Capture", ErrMisuse)
	}
	if err := s.uses(g.uses); err != nil {
		return err
	}
	return s.check("cuGraphLaunch", g.g.Launch(s.compute))
}

// Close releases the recording, as closing the device does.
func (g *Graph) Close() error {
	err := g.d.onThread(func(s *Stream) error {
		if g.gone {
			return nil
		}
		delete(s.graphs, g)
		return s.check("cuGraphExecDestroy", g.destroy())
	})
	if errors.Is(err, ErrClosed) {
		return nil
	}
	return err
}

func (g *Graph) destroy() error {
	g.gone = true
	return g.g.Destroy()
}
