// Package cuda is the device layer over gorgonia.org/cu: one locked OS thread per GPU, its primary context, two
// streams, pinned staging memory, a pool of device memory with a limit, compiled images, launches, events and
// graphs. It knows nothing of what is computed: images and kernel names come from its callers.
//
// Input: bytes, device addresses and launches. Output: bytes, and errors that wrap ErrUnavailable, ErrMemory,
// ErrDriver, ErrTooOld, ErrLost, ErrRange or ErrClosed.
//
// The driver (libcuda.so.1, or what SLUICE_LIBCUDA names) is opened by the first call of Devices or Open. Without
// the build tag native, on another system than Linux on amd64 or arm64, or without a driver, they return
// ErrUnavailable with the reason.
//
// # Order
//
// What a Stream is told happens on the device in that order, also across calls of Do, although copies to the
// device go over a stream of their own: a copy waits for the launches that have its memory among their
// parameters, and a launch for the copies to its own. So a copy of the next tile overlaps the kernels of this
// one. A kernel must find its memory through its parameters; an address that only lies in device memory is not
// seen.
package cuda
