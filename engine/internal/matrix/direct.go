package matrix

import (
	"context"
	"math"
	"sync"

	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels"
)

// sure returns how many times the bound a distance of tiles must be to be kept. Where little accuracy is asked for, it
// is kept where its error is not larger than itself.
func (m *product) sure() float64 {
	if m.DType == kernels.F32 || m.DType == kernels.BF16x3 {
		return 32
	}
	return 1
}

// directly computes short distances again from the differences of the rows: tiles subtract products that are nearly
// equal, which cancels most digits where rows are long and close to each other. bound is the error bound of a distance
// of 0, and its square the bound of any distance's square; directly returns the bound that remains.
func (m *product) directly(ctx context.Context, bound float64) (float64, error) {
	if m.Metric != kernels.L2 || math.IsInf(bound, 0) || math.IsNaN(bound) {
		return bound, nil
	}
	release, err := m.r.HoldBoth(m.a, m.b)
	defer release()
	if err != nil {
		return 0, err
	}
	const rows = 16
	near := bound * m.sure()
	var turn sync.Mutex
	shortest, longest, direct := math.Inf(1), 0., 0. // of those that are kept, and of the others
	err = m.r.Pool.Each(ctx, workers.Ceil(m.a.N, rows), 0, func(_, task int) error {
		least, most, most0 := math.Inf(1), 0., 0.
		for i := task * rows; i < min(m.a.N, (task+1)*rows); i++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			row, out := m.a.Row(i), m.Out[i*m.Stride:][:m.b.N]
			for j, s := range out {
				if d := float64(s); d <= near {
					d = distance(row, m.b.Row(j))
					out[j], most0 = float32(d), max(most0, d)
				} else if d <= math.MaxFloat32 {
					least, most = min(least, d), max(most, d)
				}
			}
		}
		turn.Lock()
		defer turn.Unlock()
		shortest, longest, direct = min(shortest, least), max(longest, most), max(direct, most0)
		return nil
	})
	return max(bound*(bound/shortest)+0x1p-22*longest, 0x1p-24*direct) + 0x1p-148, err
}

// distance returns the Euclidean distance of two rows.
func distance(a, b []float32) float64 {
	sum := 0.
	for i, x := range a {
		d := float64(x) - float64(b[i])
		sum += d * d
	}
	return math.Sqrt(sum)
}
