// Package cpu detects this machine's instruction sets and defines the arguments of its kernels; each family of kernels
// is a package below: scores, tiles, scan, bitsets and transpose for vectors, encoder, and training. A family has one C
// body, compiled for each instruction set, behind Go functions that check their arguments. Kernels are single-threaded
// and allocate nothing; package engine manages tasks, threads and memory.
//
// Without cgo, or on an architecture other than amd64 and arm64, Go code runs instead and ISA() returns "go".
package cpu
