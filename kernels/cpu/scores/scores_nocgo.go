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
