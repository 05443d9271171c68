//go:build !cgo || !(amd64 || arm64)

package cpu

import (
	"fmt"

	"github.com/sluice-rag/sluice/kernels"
)

func (k Kernels) scan(*Chunk, *Queries, []uint8, int, []float32, *ScanScratch) (int, error) {
	return 0, fmt.Errorf("%w: %s has no scan", kernels.ErrISA, k.isa)
}

func (k Kernels) scoreRows(m kernels.Metric, out []float64, q, c Rows, rows []int32) error {
	return refScoreRows(m, out, q, c, rows)
}
