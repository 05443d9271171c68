package gorgonia

import (
	"context"
	"fmt"
	"testing"

	"gorgonia.org/tensor"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/kernels"
)

// BenchmarkMatMul: 2,048² through tensor, with both operands as rows and with the right one transposed, beside the
// engine's own product and tensor's default engine.
func BenchmarkMatMul(b *testing.B) {
	const n = 2048
	e := newEngine(b, engine.Options{Cores: cores.New(cores.Available())})
	x, y, out := numbers(1, n*n), numbers(2, n*n), make([]float32, n*n)
	flops := func(b *testing.B) {
		b.ReportMetric(2*n*n*n*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
	}
	b.Run("bounded", func(b *testing.B) {
		left, right := engine.Vectors{Data: x, Rows: n, Dim: n}, engine.Vectors{Data: y, Rows: n, Dim: n}
		for b.Loop() {
			if _, err := e.engine.BoundedMatrix(context.Background(), out, n, left, right, kernels.IP,
				kernels.F32); err != nil {
				b.Fatal(err)
			}
		}
		flops(b)
	})
	for name, c := range map[string]struct {
		engine     tensor.Engine
		transposed bool
	}{"rows": {e, false}, "transposed": {e, true}, "default": {tensor.StdEng{}, false}} {
		b.Run(name, func(b *testing.B) {
			left, right := plain(c.engine, x, n, n), plain(c.engine, y, n, n)
			if c.transposed {
				must(right.T())
			}
			reuse := plain(c.engine, out, n, n)
			for b.Loop() {
				if _, err := tensor.MatMul(left, right, tensor.WithReuse(reuse)); err != nil {
					b.Fatal(err)
				}
			}
			flops(b)
		})
	}
}

// BenchmarkSmall: what a call costs.
func BenchmarkSmall(b *testing.B) {
	e := newEngine(b, engine.Options{Cores: cores.New(cores.Available())})
	for name, eng := range map[string]tensor.Engine{"sluice": e, "default": tensor.StdEng{}} {
		v, w := tensor.New(tensor.WithBacking(numbers(1, 384)), tensor.WithEngine(eng)),
			tensor.New(tensor.WithBacking(numbers(2, 384)), tensor.WithEngine(eng))
		b.Run("inner384/"+name, func(b *testing.B) {
			for b.Loop() {
				if _, err := tensor.Inner(v, w); err != nil {
					b.Fatal(err)
				}
			}
		})
		for _, n := range []int{4, 32, 64, 128} {
			x, y, out := plain(eng, numbers(1, n*n), n, n), plain(eng, numbers(2, n*n), n, n),
				plain(eng, numbers(2, n*n), n, n)
			b.Run(fmt.Sprintf("matmul%d/%s", n, name), func(b *testing.B) {
				for b.Loop() {
					if _, err := tensor.MatMul(x, y, tensor.WithReuse(out)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
