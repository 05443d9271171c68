//go:build !cgo || !(amd64 || arm64)

package cpu

func (k Kernels) count(c *Count, rows *Panels, row0, row1 int, lanes *Panels, lane0, lane1 int) error {
	return goCount(c, rows, row0, row1, lanes, lane0, lane1)
}

func (k Kernels) matrix(out []float32, stride int, rows *Panels, row0, row1 int, lanes *Panels, lane0, lane1 int) error {
	goMatrix(out, stride, rows, row0, row1, lanes, lane0, lane1)
	return nil
}
