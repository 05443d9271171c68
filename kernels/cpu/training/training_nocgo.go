//go:build !cgo || !(amd64 || arm64)

package training

import "github.com/sluice-rag/sluice/kernels/cpu"

func geluSlope(k cpu.Kernels, x, slope []float32) error {
	goGELUSlope(x, slope)
	return nil
}

func adam(k cpu.Kernels, w, g, m, v []float32, s AdamStep) error {
	goAdam(w, g, m, v, s)
	return nil
}

func attend(k cpu.Kernels, a AttendedHead, q, key, value, bias, p, context []float32, _ *[]float32) error {
	goAttendHead(a, q, key, value, bias, p, context)
	return nil
}

func attendBack(k cpu.Kernels, a AttendedHead, q, key, value, p, dContext, dq, dk, dv []float32, _ *[]float32) error {
	goAttendHeadBack(a, q, key, value, p, dContext, dq, dk, dv)
	return nil
}
