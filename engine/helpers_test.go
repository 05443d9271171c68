package engine

import (
	"math"
	"math/rand/v2"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/ref"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var metrics = []kernels.Metric{kernels.Cosine, kernels.IP, kernels.L2}

func newEngine(t testing.TB, o Options) *Engine {
	t.Helper()
	if o.Cores == nil {
		o.Cores = cores.New(4) // more than this machine may have, so that threads really interleave
	}
	e, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// engines are engines that must agree in every bit: each instruction set, odd tiles, one and more threads.
func engines(t testing.TB) map[string]*Engine {
	all := map[string]*Engine{
		"1 thread":  newEngine(t, Options{Threads: 1}),
		"4 threads": newEngine(t, Options{Threads: 4}),
		"tiny tile": newEngine(t, Options{Threads: 3, TileRows: 3}),
		"one tile":  newEngine(t, Options{Threads: 2, TileRows: 100_000}),
	}
	for _, isa := range cpu.Available() {
		all[isa.String()] = newEngine(t, Options{ISA: isa.String(), TileRows: 7})
	}
	return all
}

// vectors makes n random vectors; some are zero, huge, denormal or copies of others.
func vectors(rng *rand.Rand, n, dim, stride int) Vectors {
	v := Vectors{Data: make([]float32, max(0, (n-1)*stride+dim)), Rows: n, Dim: dim, Stride: stride}
	for i := range v.Data {
		v.Data[i] = float32(math.NaN()) // what lies between the rows must not be read
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
			copy(row, rows(v)[rng.IntN(i)])
		}
	}
	return v
}

// plain makes n unit-like random vectors with clusters and some duplicates, as embeddings have.
func plain(rng *rand.Rand, n, dim int) Vectors {
	v := Vectors{Data: make([]float32, n*dim), Rows: n, Dim: dim}
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

func rows(v Vectors) [][]float32 {
	stride := v.Stride
	if stride == 0 {
		stride = v.Dim
	}
	out := make([][]float32, v.Rows)
	for i := range out {
		out[i] = v.Data[i*stride : i*stride+v.Dim]
	}
	return out
}

func biasMap(list []Bias) map[int]float64 {
	m := make(map[int]float64)
	for _, b := range list {
		m[b.Row] = b.Value
	}
	return m
}

func refHits(hits []ref.Hit) []Hit {
	var out []Hit
	for _, h := range hits {
		out = append(out, Hit(h))
	}
	return out
}
