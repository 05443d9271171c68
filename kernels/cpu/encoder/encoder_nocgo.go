//go:build !cgo || !(amd64 || arm64)

package encoder

import "github.com/sluice-rag/sluice/kernels/cpu"

func panel(k cpu.Kernels) int { return goPanel }

func weightSize(k cpu.Kernels, w *Weights) int { return w.Out * w.In }

func linearScratch(k cpu.Kernels, _, _ int) int { return 0 }

func packWeights(k cpu.Kernels, to []float32, a cpu.Rows) error {
	goPackWeights(to, a)
	return nil
}

func linear(k cpu.Kernels, l *Linear) error {
	goLinear(l)
	return nil
}

func codePanel(k cpu.Kernels) int { return goPanel }

func codeSize(k cpu.Kernels) int { return 1 }

func codeBytes(k cpu.Kernels, w *Weights) int { return goCodeBytes(w) }

func packCodes(k cpu.Kernels, to []byte, a cpu.Rows) error {
	goPackCodes(to, a)
	return nil
}

func encode(k cpu.Kernels, c *Codes, x cpu.Rows) error {
	goEncode(c, x)
	return nil
}

func layerNorm(k cpu.Kernels, rows []float32, n, dim, stride int, scale, shift []float32, epsilon float32) error {
	goLayerNorm(rows, n, dim, stride, scale, shift, epsilon)
	return nil
}

func attentionScratch(k cpu.Kernels, longest, _ int, _ bool) int { return longest }

func attention(k cpu.Kernels, a *Attention) error {
	goAttention(a)
	return nil
}

// Helper does nothing in a build without C.
type Helper struct{}

// NewHelper returns a Helper without a thread.
func NewHelper() *Helper { return &Helper{} }

// Close does nothing.
func (*Helper) Close() {}

// Begin does nothing.
func (*Helper) Begin() {}

// End does nothing.
func (*Helper) End() {}

// Done returns 0.
func (*Helper) Done() int { return 0 }
