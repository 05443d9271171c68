// Package cuda is the device layer over gorgonia.org/cu: one locked OS thread per GPU, its primary context, two
// streams, pinned staging memory, a pool of device memory with a limit, compiled images, launches and events.
// It is independent of what is computed: callers supply images and kernel names.
//
// Input: bytes, device addresses and launches. Output: bytes, and errors that wrap ErrUnavailable, ErrMemory,
// ErrDriver, ErrTooOld, ErrLost, ErrRange or ErrClosed.
//
// The first call of Devices or Open loads the driver (libcuda.so.1, or the path in SLUICE_LIBCUDA). Without the build
// tag native, on a system other than Linux on amd64 or arm64, or without a driver, they return ErrUnavailable with the
// reason.
//
// # Order
//
// Work queued on a Stream runs on the device in that order, also across calls of Do, although copies to the device use
// a separate stream: a copy waits for the launches that have its memory among their parameters, and a launch waits for
// the copies to its memory. So a copy of the next tile overlaps the kernels of this one. A kernel must receive its
// memory through its parameters; an address that is stored in device memory is not tracked.
package cuda
