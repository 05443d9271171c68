//go:build native

package embed

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	ort "github.com/yalue/onnxruntime_go"
)

// ortOwner owns the process's ONNX Runtime. The binding keeps one environment in package variables, so there can be
// only one owner per process: the first Open loads the library, the last Close frees it. Nothing is loaded before the
// first Open.
type ortOwner struct {
	mu    sync.Mutex
	users int
	path  string
	ours  bool // false: another user of the binding had loaded it first, and frees it
}

var ortRuntime ortOwner

// acquire loads the library, or shares the loaded one; release must be called once.
func (r *ortOwner) acquire(path string) (release func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users > 0 && r.ours && r.path != path {
		return nil,
			fmt.Errorf("%w: %s is asked for while %s is in use; a process can hold one", ErrLibrary, path, r.path)
	}
	if r.users == 0 {
		r.ours, r.path = !ort.IsInitialized(), path
		if r.ours {
			ort.SetSharedLibraryPath(path)
			if err := initialize(path); err != nil {
				return nil, fmt.Errorf("%w: %s: %w", ErrLibrary, path, err)
			}
		}
	}
	r.users++
	return r.release, nil
}

// initialize opens the library with telemetry disabled, if necessary with the C++ runtime that lies beside it. Errors
// are returned, not logged. The system keeps the reason why a library was not opened for the thread that tried to, and
// the binding asks for it in a second call.
func initialize(path string) error {
	if err := DisableTelemetry(); err != nil {
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := ort.InitializeEnvironment(ort.WithLogLevelFatal())
	if err == nil || !lacksRuntime(err) {
		return err
	}
	if e := openFallback(path, fallbackDigests); e != nil {
		return errors.Join(err, e)
	}
	return ort.InitializeEnvironment(ort.WithLogLevelFatal())
}

func (r *ortOwner) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users--; r.users == 0 && r.ours {
		_ = ort.DestroyEnvironment() // fails only if there is no environment
	}
}

// runtime describes the loaded library and the arithmetic type: graphs that are written here compute in float32,
// whatever type the weights are stored in.
func (s *source) runtime(p *provider) Runtime {
	precision := "float32"
	switch {
	case s.graph == nil:
		precision = "export"
	case s.int8:
		precision = string(Int8)
	}
	return Runtime{Library: "onnxruntime " + ort.GetVersion(), Provider: p.name, ISA: p.isa, Precision: precision}
}

// LibraryVersion loads ONNX Runtime and returns its version and path.
func LibraryVersion(o Options) (version, path string, err error) {
	if path, err = findLibrary(o.Library, libraryDigest()); err != nil {
		return "", "", err
	}
	release, err := ortRuntime.acquire(path)
	if err != nil {
		return "", path, err
	}
	defer release()
	return ort.GetVersion(), path, nil
}
