package cpu_test

import . "github.com/sluice-rag/sluice/kernels/cpu"
import "testing"

// Nothing behind the last row of inputs or codes is read, though tiles have 16 rows.
func TestLinearReadsNothingBehindTheEnd(t *testing.T) {
	forEachProduct(t, func(t *testing.T, k Kernels) {
		for _, rows := range []int{1, 16, 19} {
			for _, in := range []int{5, 64, 70} {
				const out = 20
				x := Rows{Data: inFence(t, make([]float32, rows*in), true), N: rows, Dim: in, Stride: in}
				w := Rows{Data: make([]float32, out*in), N: out, Dim: in, Stride: in}
				for _, v := range [][]float32{x.Data, w.Data} {
					for i := range v {
						v[i] = float32(i%7) - 3
					}
				}
				l := Linear{X: x, Weights: must(k.PackWeights(w)), Stride: out,
					Y: inFence(t, make([]float32, rows*out), true)}
				l.Last = l.Weights.Panels()
				if err := multiply(k, &l); err != nil {
					t.Fatal(err)
				}
				codes := encoded(t, k, x)
				fenceFields[byte](t, codes, true, "codes")
				fenceFields[float32](t, codes, true, "steps")
				l.X, l.Codes, l.Weights = Rows{}, codes, must(k.PackCodes(w))
				l.Last = l.Weights.Panels()
				if err := multiply(k, &l); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
