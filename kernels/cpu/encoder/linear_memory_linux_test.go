package encoder_test

import . "github.com/sluice-rag/sluice/kernels/cpu"
import "github.com/sluice-rag/sluice/kernels/cpu/cputest"
import . "github.com/sluice-rag/sluice/kernels/cpu/encoder"
import "testing"

// Nothing beyond the last row of inputs or codes is read, though tiles have 16 rows.
func TestLinearReadsNothingBehindTheEnd(t *testing.T) {
	forEachProduct(t, func(t *testing.T, k Kernels) {
		for _, rows := range []int{1, 16, 19} {
			for _, in := range []int{5, 64, 70} {
				const out = 20
				x := Rows{Data: cputest.InFence(t, make([]float32, rows*in), true), N: rows, Dim: in, Stride: in}
				w := Rows{Data: make([]float32, out*in), N: out, Dim: in, Stride: in}
				for _, v := range [][]float32{x.Data, w.Data} {
					for i := range v {
						v[i] = float32(i%7) - 3
					}
				}
				l := Linear{X: x, Weights: cputest.Must(PackWeights(k, nil, w)), Stride: out,
					Y: cputest.InFence(t, make([]float32, rows*out), true)}
				l.Last = l.Weights.Panels()
				if err := multiply(k, &l); err != nil {
					t.Fatal(err)
				}
				codes := encoded(t, k, x)
				cputest.FenceFields[byte](t, codes, true, "codes")
				cputest.FenceFields[float32](t, codes, true, "steps")
				l.X, l.Codes, l.Weights = Rows{}, codes, cputest.Must(PackCodes(k, nil, w))
				l.Last = l.Weights.Panels()
				if err := multiply(k, &l); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
