// Package driver reaches the CUDA driver without linking it. It defines the entry points that gorgonia.org/cu and this
// package call as forwarders; Load opens libcuda.so.1 and fills them in. So one program starts on machines with and
// without a driver, and cu's init(), which would end the process, finds success. Package cuda is its only importer.
//
// It also has the calls that cu v0.9.4 lacks: the attribute for large dynamic shared memory, pinned host memory,
// stream-ordered memory pools, graphs of captured launches, and the driver's own text for an error.
//
// Its C parts need nothing but a header (set-up part cuda).
package driver
