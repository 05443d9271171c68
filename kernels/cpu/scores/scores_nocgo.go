//go:build !cgo || !(amd64 || arm64)

package scores

import (
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

func scores(k cpu.Kernels, m kernels.Metric, out []float64, stride int, a, b cpu.Rows) error {
	refScores(m, out, stride, a, b)
	return nil
}

func norms(k cpu.Kernels, out []float64, a cpu.Rows) error {
	refNorms(out, a)
	return nil
}

func nonFinite(k cpu.Kernels, a cpu.Rows) (int, error) { return refNonFinite(a), nil }

func pairs(k cpu.Kernels, m kernels.Metric, out []float64, a cpu.Rows, rowsA []int32, b cpu.Rows, rowsB []int32) error {
	return refPairs(m, out, a, rowsA, b, rowsB)
}

func estimate(k cpu.Kernels, m kernels.Metric, out []float32, a cpu.Rows, rowsA []int32, b cpu.Rows,
	rowsB []int32) error {
	return refEstimate(m, out, a, rowsA, b, rowsB)
}

func sum(k cpu.Kernels, out []int64, a cpu.Rows, factor []float64, rows []int32) error {
	return refSum(out, a, factor, rows)
}
