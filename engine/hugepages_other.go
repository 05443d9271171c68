//go:build !linux

package engine

// hugePages is n zeroed bytes that begin at a cache line.
func hugePages(n int) []byte { return alignedBytes(n, 64) }
