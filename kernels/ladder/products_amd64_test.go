//go:build cgo && amd64

package ladder

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/encoder"
)

// BenchmarkProducts measures the products of a layer of MiniLM, including bias and activation, as a percentage of the
// peak rate of multiply-adds. Winograd's products may exceed it.
func BenchmarkProducts(b *testing.B) {
	need(b, cpu.AVX512)
	names := []string{"avx2", "avx2" + cpu.Winograd, "avx512", "avx512vnni", "avx512vnni" + cpu.Winograd, "amx"}
	for _, rows := range []int{512, 12} {
		for _, name := range names {
			k, err := cpu.Open(name)
			if err != nil {
				b.Logf("SKIP: %v", err)
				continue
			}
			for _, coded := range []bool{false, true} {
				if coded && strings.HasSuffix(name, cpu.Winograd) {
					continue // the same products
				}
				run, operations := layer(b, k, rows, coded)
				label := fmt.Sprintf("%d rows/%s/%s", rows, name, map[bool]string{false: "f32", true: "int8"}[coded])
				b.Run(label, func(b *testing.B) { share(b, operations, run, PeakF32) })
			}
		}
	}
}

// layer computes the four products of a layer, with 8-bit codes if coded, and returns the number of operations.
func layer(b *testing.B, k cpu.Kernels, rows int, coded bool) (run func(), operations float64) {
	rng := rand.New(rand.NewPCG(3, 1))
	draw := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(rng.NormFloat64()) / 8
		}
		return v
	}
	hidden := draw(rows * 384)
	var products []encoder.Linear
	for _, p := range []struct {
		in, out    int
		activation encoder.Activation
		residual   bool
	}{{384, 1152, encoder.NoActivation, false}, {384, 384, encoder.NoActivation, true},
		{384, 1536, encoder.GELU, false}, {1536, 384, encoder.NoActivation, true}} {
		pack := encoder.PackWeights
		if coded {
			pack = encoder.PackCodes
		}
		w, err := pack(k, nil, cpu.Rows{Data: draw(p.in * p.out), N: p.out, Dim: p.in, Stride: p.in})
		if err != nil {
			b.Fatal(err)
		}
		l := encoder.Linear{X: cpu.Rows{Data: draw(rows * p.in), N: rows, Dim: p.in, Stride: p.in}, Weights: w,
			Bias: draw(p.out), Activation: p.activation, Y: make([]float32, rows*p.out), Stride: p.out,
			Last: w.Panels(), Scratch: make([]float32, encoder.LinearScratch(k, rows, p.in))}
		if p.residual {
			l.Residual = hidden
		}
		products = append(products, l)
		operations += 2 * float64(rows*p.in*p.out)
	}
	var codes encoder.Codes
	return func() {
		for i := range products {
			p := products[i]
			if coded {
				if err := encoder.Encode(k, &codes, p.X); err != nil {
					b.Fatal(err)
				}
				p.X, p.Codes = cpu.Rows{}, &codes
			}
			if err := p.Compute(k); err != nil {
				b.Fatal(err)
			}
		}
	}, operations
}
