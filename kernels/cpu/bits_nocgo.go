//go:build !cgo || !(amd64 || arm64)

package cpu

func (k Kernels) bits(sets []BitSet, steps []BitStep) (int, error) { return goBits(sets, steps) }
