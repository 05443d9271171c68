package scores

import (
	"math"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// The plain Go versions of the pair kernels.

func refPairs(m kernels.Metric, out []float64, a cpu.Rows, rowsA []int32, b cpu.Rows, rowsB []int32) error {
	if err := a.CheckList(rowsA); err != nil {
		return err
	}
	if err := b.CheckList(rowsB); err != nil {
		return err
	}
	for i := range rowsB {
		r, s := 0, int(rowsB[i])
		if rowsA != nil {
			r = int(rowsA[i])
		}
		x, y := a.Row(r), b.Row(s)
		switch m {
		case kernels.L2:
			out[i] = ref.Distance(x, y)
		case kernels.IP:
			out[i] = ref.Dot(x, y)
		default:
			out[i] = ref.Cosine(ref.Dot(x, y), a.Norms[r], b.Norms[s])
		}
	}
	return nil
}

func refEstimate(m kernels.Metric, out []float32, a cpu.Rows, rowsA []int32, b cpu.Rows, rowsB []int32) error {
	if err := a.CheckList(rowsA); err != nil {
		return err
	}
	if err := b.CheckList(rowsB); err != nil {
		return err
	}
	for i := range rowsA {
		var sum float32
		y := b.Row(int(rowsB[i]))
		for k, x := range a.Row(int(rowsA[i])) {
			if m == kernels.L2 {
				sum += (x - y[k]) * (x - y[k])
			} else {
				sum += x * y[k]
			}
		}
		out[i] = sum
	}
	return nil
}

func refSum(out []int64, a cpu.Rows, factor []float64, rows []int32) error {
	if err := a.CheckList(rows); err != nil {
		return err
	}
	const shift = 6. // numbers from 4 to 8 have a last bit of 2⁻⁵⁰
	zero := int64(math.Float64bits(shift))
	for _, r := range rows {
		for i, x := range a.Row(int(r)) {
			out[i] += int64(math.Float64bits(float64(factor[r]*float64(x))+shift)) - zero
		}
	}
	return nil
}
