//go:build !cgo || !(amd64 || arm64)

package tiles

import "github.com/sluice-rag/sluice/kernels/cpu"

func count(k cpu.Kernels, c *Count, rows *Panels, row0, row1 int, columns *Panels, column0, column1 int) error {
	return goCount(c, rows, row0, row1, columns, column0, column1)
}

func matrix(k cpu.Kernels, out []float32, stride int, rows *Panels, row0, row1 int, columns *Panels, column0,
	column1 int) error {
	goMatrix(out, stride, rows, row0, row1, columns, column0, column1)
	return nil
}
