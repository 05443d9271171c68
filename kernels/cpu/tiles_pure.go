//go:build !cgo || !(amd64 || arm64)

package cpu

import "github.com/sluice-rag/sluice/kernels"

func (k Kernels) pack(p *Panels, rows Rows, order []int32, from, to int) (Stats, error) {
	return goPack(p, rows, order, from, to), nil
}

func (k Kernels) count(c *Count, rows *Panels, row0, row1 int, lanes *Panels, lane0, lane1 int) error {
	return goCount(c, rows, row0, row1, lanes, lane0, lane1)
}

func (k Kernels) matrix(out []float32, stride int, rows *Panels, row0, row1 int, lanes *Panels, lane0, lane1 int) error {
	goMatrix(out, stride, rows, row0, row1, lanes, lane0, lane1)
	return nil
}

// Has tells whether there are tile kernels for the type: plain Go has float32 only.
func (k Kernels) Has(t kernels.DType) bool { return t == kernels.F32 }

func (k Kernels) panelBytes(_ kernels.DType, dim int) int { return 4 * Panel * dim }
