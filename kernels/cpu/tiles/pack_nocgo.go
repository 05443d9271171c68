//go:build !cgo || !(amd64 || arm64)

package tiles

import (
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// Has tells whether there are tile kernels for the type: plain Go has float32 only.
func Has(k cpu.Kernels, t kernels.DType) bool { return t == kernels.F32 }

func panelBytes(k cpu.Kernels, _ kernels.DType, dim int) int { return 4 * Panel * dim }

func pack(k cpu.Kernels, p *Panels, rows cpu.Rows, order []int32, from, to int) (Stats, error) {
	return goPack(p, rows, order, from, to), nil
}
