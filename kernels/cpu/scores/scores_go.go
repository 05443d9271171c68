package scores

import (
	"math"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// The plain Go versions of the C functions.

func refScores(m kernels.Metric, out []float64, stride int, a, b cpu.Rows) {
	for i := range a.N {
		x, row := a.Row(i), out[i*stride:i*stride+b.N]
		for j := range row {
			switch y := b.Row(j); m {
			case kernels.L2:
				row[j] = ref.Distance(x, y)
			case kernels.IP:
				row[j] = ref.Dot(x, y)
			default:
				row[j] = ref.Cosine(ref.Dot(x, y), a.Norms[i], b.Norms[j])
			}
		}
	}
}

func refNorms(out []float64, a cpu.Rows) {
	for i := range a.N {
		out[i] = ref.Norm(a.Row(i))
	}
}

func refNonFinite(a cpu.Rows) int {
	for i := range a.N {
		for _, x := range a.Row(i) {
			if math.Float32bits(x)&0x7f800000 == 0x7f800000 {
				return i
			}
		}
	}
	return -1
}
