//go:build !cgo || !(amd64 || arm64)

package cpu

import "github.com/sluice-rag/sluice/kernels"

func (k Kernels) pairs(m kernels.Metric, out []float64, a Rows, rowsA []int32, b Rows, rowsB []int32) error {
	return refPairs(m, out, a, rowsA, b, rowsB)
}

func (k Kernels) estimate(m kernels.Metric, out []float32, a Rows, rowsA []int32, b Rows, rowsB []int32) error {
	return refEstimate(m, out, a, rowsA, b, rowsB)
}

func (k Kernels) sum(out []float64, a Rows, factor []float64, rows []int32) error {
	return refSum(out, a, factor, rows)
}
