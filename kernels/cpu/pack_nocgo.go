//go:build !cgo || !(amd64 || arm64)

package cpu

import "github.com/sluice-rag/sluice/kernels"

// Has tells whether there are tile kernels for the type: plain Go has float32 only.
func (k Kernels) Has(t kernels.DType) bool { return t == kernels.F32 }

func (k Kernels) panelBytes(_ kernels.DType, dim int) int { return 4 * Panel * dim }

func (k Kernels) pack(p *Panels, rows Rows, order []int32, from, to int) (Stats, error) {
	return goPack(p, rows, order, from, to), nil
}
