//go:build !cgo || !(amd64 || arm64)

package tiles

import (
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

func count(k cpu.Kernels, c *Count, rows *Panels, row0, row1 int, columns *Panels, column0, column1 int) error {
	return goCount(c, rows, row0, row1, columns, column0, column1)
}

func matrix(k cpu.Kernels, out []float32, stride int, rows *Panels, row0, row1 int, columns *Panels, column0,
	column1 int) error {
	goMatrix(out, stride, rows, row0, row1, columns, column0, column1)
	return nil
}

// Has tells whether there are tile kernels for the type: plain Go has float32 only.
func Has(k cpu.Kernels, t kernels.DType) bool { return t == kernels.F32 }

func panelBytes(k cpu.Kernels, _ kernels.DType, dim int) int { return 4 * Panel * dim }

func pack(k cpu.Kernels, p *Panels, rows cpu.Rows, order []int32, from, to int) (Stats, error) {
	return goPack(p, rows, order, from, to), nil
}
