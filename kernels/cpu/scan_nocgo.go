//go:build !cgo || !(amd64 || arm64)

package cpu

import (
	"fmt"

	"github.com/sluice-rag/sluice/kernels"
)

func (k Kernels) scan(*Chunk, *Queries, []uint8, int, []float32, *ScanBias, *ScanScratch) (int, error) {
	return 0, fmt.Errorf("%w: %s has no scan", kernels.ErrISA, k.isa)
}
