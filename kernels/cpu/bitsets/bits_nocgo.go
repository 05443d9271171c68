//go:build !cgo || !(amd64 || arm64)

package bitsets

import "github.com/sluice-rag/sluice/kernels/cpu"

func run(k cpu.Kernels, sets []Set, steps []Step) (int, error) { return goBits(sets, steps) }
