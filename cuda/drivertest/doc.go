// Package drivertest has a stand-in for the CUDA driver: a libcuda.so.1 whose device memory is the host's, which
// runs kernels that were compiled for the host. It is for tests, and for the bundle that shows on a machine
// without a GPU what would run on one with.
//
// It is stricter than a real driver: it knows the guard bands around every allocation, asynchronous copies from
// memory that is not pinned, calls on a thread without a context, work on another device's streams, what is freed
// twice and what is never freed. Any call can be made to fail (FailAt). With Set("lazy", 1) nothing happens on
// the device before somebody waits for it, with 2 this is so on every second stream: both find work that lacks an
// order. Otherwise everything happens at once.
//
// What it does not show: speed, and what only a device does (instructions, the order of threads within a block but for
// barriers).
package drivertest
