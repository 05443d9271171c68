// Package driver reaches the CUDA driver without linking it. It defines the entry points that gorgonia.org/cu and this
// package call as forwarders; Load opens libcuda.so.1 and resolves them. So one program starts on machines with and
// without a driver, and cu's init(), which ends the process on an error, gets success. Only package cuda imports it.
//
// It also has the calls that cu v0.9.4 lacks: the attribute for large dynamic shared memory, pinned host memory,
// stream-ordered memory pools, and the driver's own text for an error.
//
// Its C parts need only a header (set-up part cuda).
package driver
