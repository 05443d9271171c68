//go:build !cgo || !(amd64 || arm64)

package cpu

import "github.com/sluice-rag/sluice/kernels"

func (k Kernels) scores(m kernels.Metric, out []float64, stride int, a, b Rows) error {
	refScores(m, out, stride, a, b)
	return nil
}

func (k Kernels) norms(out []float64, a Rows) error {
	refNorms(out, a)
	return nil
}

func (k Kernels) nonFinite(a Rows) (int, error) { return refNonFinite(a), nil }
