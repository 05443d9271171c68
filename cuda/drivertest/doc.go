// Package drivertest has a stand-in for the CUDA driver: a libcuda.so.1 whose device memory is host memory, and which
// runs kernels that were compiled for the host. It is for tests, and for the bundle that demonstrates GPU execution on
// a machine without a GPU.
//
// It is stricter than a real driver: it detects writes to the guard bands around every allocation, asynchronous copies
// from memory that is not pinned, calls on a thread without a context, work on another device's streams, double frees
// and leaks. Any call can be made to fail (FailAt). With Set("lazy", 1) the device defers all work until somebody waits
// for it, with 2 only the work of every second stream; both detect missing synchronisation. Otherwise all work runs at
// once.
//
// It does not show speed, nor what only a device does (instructions, the order of threads within a block except for
// barriers).
package drivertest
