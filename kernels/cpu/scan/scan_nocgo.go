//go:build !cgo || !(amd64 || arm64)

package scan

import (
	"fmt"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

func scan(k cpu.Kernels, _ *Chunk, _ *Queries, _ []uint8, _ int, _ []float32, _ *Bias, _ *Scratch) (int, error) {
	return 0, fmt.Errorf("%w: %s has no scan", kernels.ErrISA, k.ISA())
}
