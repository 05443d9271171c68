//go:build !cgo || !(amd64 || arm64)

package transpose

import "github.com/sluice-rag/sluice/kernels/cpu"

func transpose(k cpu.Kernels, to []float32, stride int, a cpu.Rows) error {
	goTranspose(to, stride, a)
	return nil
}
