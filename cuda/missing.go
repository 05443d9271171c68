//go:build !native || !cgo || !linux || !(amd64 || arm64)

package cuda

import "fmt"

// Available reports whether this build can load a driver.
const Available = false

// errBuild is returned by every call in a build that cannot load a driver.
var errBuild = fmt.Errorf("%w: this program was built without the native parts (make build), or for another system "+
	"than Linux on amd64 or arm64", ErrUnavailable)

// Devices returns ErrUnavailable.
func Devices() ([]Info, error) { return nil, errBuild }

// Device is a GPU that cannot be opened in this build.
type Device struct{}

// Open returns ErrUnavailable.
func Open(Options) (*Device, error) { return nil, errBuild }

// Close does nothing.
func (*Device) Close() error { return nil }

// Info returns nothing.
func (*Device) Info() Info { return Info{} }

// Load returns ErrUnavailable.
func (*Device) Load([]byte) (*Module, error) { return nil, errBuild }

// Alloc returns ErrUnavailable.
func (*Device) Alloc(int64) (Ptr, error) { return 0, errBuild }

// Free does nothing.
func (*Device) Free(Ptr) {}

// Do returns ErrUnavailable.
func (*Device) Do(func(s *Stream) error) error { return errBuild }

// Limit returns 0.
func (*Device) Limit() int64 { return 0 }

// Module is a loaded image.
type Module struct{}

// Kernel returns ErrUnavailable.
func (*Module) Kernel(string) (Kernel, error) { return Kernel{}, errBuild }

// Part returns nothing.
func (*Module) Part() ImagePart { return ImagePart{} }

// Kernel is a function of an image.
type Kernel struct{}

// Stream is what Do passes to its function.
type Stream struct{}

// Launch returns ErrUnavailable.
func (*Stream) Launch(_ Kernel, _, _ [3]int, _ int, _ ...uint64) error { return errBuild }

// Write returns ErrUnavailable.
func (*Stream) Write(Ptr, []byte) error { return errBuild }

// Read returns ErrUnavailable.
func (*Stream) Read([]byte, Ptr) error { return errBuild }

// Fill returns ErrUnavailable.
func (*Stream) Fill(Ptr, byte, int64) error { return errBuild }

// Copy returns ErrUnavailable.
func (*Stream) Copy(_, _ Ptr, _ int64) error { return errBuild }

// Map returns ErrUnavailable.
func (*Stream) Map(Boxes) ([MapBytes]byte, error) { return [MapBytes]byte{}, errBuild }

// Wait returns ErrUnavailable.
func (*Stream) Wait() error { return errBuild }

// Time returns ErrUnavailable.
func (*Stream) Time(func() error) (float64, error) { return 0, errBuild }
