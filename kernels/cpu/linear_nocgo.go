//go:build !cgo || !(amd64 || arm64)

package cpu

func (k Kernels) panel() int { return goPanel }

func (k Kernels) weightSize(w *Weights) int { return w.Out * w.In }

func (k Kernels) linearScratch(_, _ int) int { return 0 }

func (k Kernels) packWeights(to []float32, a Rows) error {
	goPackWeights(to, a)
	return nil
}

func (k Kernels) linear(l *Linear) error {
	goLinear(l)
	return nil
}

func (k Kernels) codePanel() int { return goPanel }

func (k Kernels) codeSize() int { return 1 }

func (k Kernels) codeBytes(w *Weights) int { return goCodeBytes(w) }

func (k Kernels) packCodes(to []byte, a Rows) error {
	goPackCodes(to, a)
	return nil
}

func (k Kernels) encode(c *Codes, x Rows) error {
	goEncode(c, x)
	return nil
}

func (k Kernels) layerNorm(rows []float32, n, dim, stride int, scale, shift []float32, epsilon float32) error {
	goLayerNorm(rows, n, dim, stride, scale, shift, epsilon)
	return nil
}

func (k Kernels) attentionScratch(longest, _ int, _ bool) int { return longest }

func (k Kernels) attention(a *Attention) error {
	goAttention(a)
	return nil
}
