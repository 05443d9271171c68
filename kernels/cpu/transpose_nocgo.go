//go:build !cgo || !(amd64 || arm64)

package cpu

func (k Kernels) transpose(to []float32, stride int, a Rows) error {
	goTranspose(to, stride, a)
	return nil
}
