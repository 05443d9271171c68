// Package testvectors makes sets of vectors for the tests of the engine's packages.
package testvectors

import (
	"math"
	"math/rand/v2"

	"github.com/sluice-rag/sluice/engine/distribution"
	"github.com/sluice-rag/sluice/kernels"
)

// Any returns n random vectors; some are zero, huge, denormal or copies of others.
func Any(rng *rand.Rand, n, dim, stride int) kernels.Vectors {
	v := kernels.Vectors{Data: make([]float32, max(0, (n-1)*stride+dim)), Rows: n, Dim: dim, Stride: stride}
	for i := range v.Data {
		v.Data[i] = float32(math.NaN()) // the gaps between rows must not be read
	}
	for i := range n {
		row, kind := v.Data[i*stride:i*stride+dim], rng.IntN(12)
		for k := range row {
			x := float32(rng.NormFloat64())
			switch kind {
			case 0:
				x = 0
			case 1:
				x *= math.MaxFloat32 / 16
			case 2:
				x *= 8 * math.SmallestNonzeroFloat32
			case 3: // mixed magnitudes, which cancel
				x *= float32(math.Pow(10, float64(rng.IntN(60)-30)))
			}
			row[k] = x
		}
		if kind == 4 && i > 0 {
			copy(row, v.Data[rng.IntN(i)*stride:][:dim])
		}
	}
	return v
}

// Embeddings returns n random vectors of about unit length with clusters and some duplicates, like embeddings.
func Embeddings(rng *rand.Rand, n, dim int) kernels.Vectors {
	v := kernels.Vectors{Data: make([]float32, n*dim), Rows: n, Dim: dim}
	for i := range n {
		row := v.Data[i*dim : (i+1)*dim]
		if i > 0 && rng.IntN(10) == 0 {
			copy(row, v.Data[rng.IntN(i)*dim:][:dim])
			continue
		}
		for k := range row {
			row[k] = float32(rng.NormFloat64())
		}
		row[i%dim] += 2
	}
	return v
}

// Mixture returns n contexts around 64 centres and three pseudo-queries of each, with cosines of .5 to .9 to it.
func Mixture(n, dim int) distribution.Input {
	rng := rand.New(rand.NewPCG(7, uint64(dim)))
	unit := func(v []float32, length float64) {
		norm := 0.
		for k := range v {
			v[k] = float32(rng.NormFloat64())
			norm += float64(v[k]) * float64(v[k])
		}
		for k := range v {
			v[k] *= float32(length / math.Sqrt(norm))
		}
	}
	around := func(to, centre []float32, share float64) {
		unit(to, math.Sqrt(1-share*share))
		for k := range to {
			to[k] += float32(share) * centre[k]
		}
	}
	in := distribution.Input{Quantiles: Quantiles(), Owner: make([]int32, 3*n),
		Contexts: kernels.Vectors{Data: make([]float32, n*dim), Rows: n, Dim: dim},
		Queries:  kernels.Vectors{Data: make([]float32, 3*n*dim), Rows: 3 * n, Dim: dim}}
	centres := make([]float32, 64*dim)
	for z := range 64 {
		unit(centres[z*dim:(z+1)*dim], 1)
	}
	for i := range n {
		c := in.Contexts.Data[i*dim : (i+1)*dim]
		around(c, centres[rng.IntN(64)*dim:][:dim], .6)
		for j := 3 * i; j < 3*i+3; j++ {
			around(in.Queries.Data[j*dim:(j+1)*dim], c, .5+.4*rng.Float64())
			in.Owner[j] = int32(i)
		}
	}
	return in
}

// Quantiles returns the quantiles of the usual table, and the extremes.
func Quantiles() []float64 { return []float64{0, .05, .25, .5, .75, .95, 1} }
