//go:build !cgo || !(amd64 || arm64)

package cpu

func (k Kernels) geluSlope(x, slope []float32) error {
	goGELUSlope(x, slope)
	return nil
}

func (k Kernels) adam(w, g, m, v []float32, s AdamStep) error {
	goAdam(w, g, m, v, s)
	return nil
}
