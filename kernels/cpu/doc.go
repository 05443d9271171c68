// Package cpu says what this machine's processor can, and what its kernels take; each family of kernels is a package
// below: scores, tiles, scan, bitsets and transpose for vectors, encoder, and training. A family has one C body,
// compiled for each instruction set, behind Go functions that check their arguments. Kernels are single-threaded and
// allocate nothing; tasks, threads and memory belong to package engine.
//
// Without cgo, or on an architecture other than amd64 and arm64, Go code runs instead and ISA() says "go".
package cpu
