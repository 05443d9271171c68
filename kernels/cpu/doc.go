// Package cpu is the CPU implementation of the kernels: one C body, compiled per instruction set
// (slc.h is the contract), behind a small Go type. Kernels are single-threaded and allocate nothing;
// tiles, threads and memory belong to package engine.
//
// Without cgo, or on an architecture other than amd64 and arm64, kernels/ref runs instead and
// ISA() says "go". All of them give the same bits.
package cpu
