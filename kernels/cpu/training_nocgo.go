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

func (k Kernels) attend(a AttendedHead, q, key, value, p, context []float32, _ *[]float32) error {
	goAttendHead(a, q, key, value, p, context)
	return nil
}

func (k Kernels) attendBack(a AttendedHead, q, key, value, p, dContext, dq, dk, dv []float32, _ *[]float32) error {
	goAttendHeadBack(a, q, key, value, p, dContext, dq, dk, dv)
	return nil
}
