//go:build native

package ops

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/kernels/cpu"
)

// everyISA runs a test once for each instruction set of this machine with the kernels of the operators, with AMX
// emulated, and with Winograd's products.
func everyISA(t *testing.T, test func(t *testing.T)) {
	names := []string{cpu.EmulatedAMX}
	for _, isa := range cpu.Available() {
		names = append(names, isa.String(), isa.String()+cpu.Winograd)
	}
	for _, name := range names {
		if _, err := cpu.Open(name); err != nil {
			continue // neither in this build nor on this machine
		}
		t.Run(name, func(t *testing.T) {
			t.Setenv("SLUICE_ISA", name)
			test(t)
		})
	}
}

// normal draws n values around 0.
func normal(r *rand.Rand, n int, scale float64) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(scale * r.NormFloat64())
	}
	return v
}

// compare fails where a value is further from the reference than a share of 1 + its size, and says the largest error.
func compare(t *testing.T, got []float32, want []float64, share float64) {
	t.Helper()
	largest := 0.
	for i, w := range want {
		largest = max(largest, math.Abs(float64(got[i])-w)/(1+math.Abs(w)))
	}
	if t.Logf("largest error %.1e", largest); !(largest <= share) {
		t.Errorf("an error of %.2e, at most %.0e expected", largest, share)
	}
}

func linearNormGraph(in, out, codes int, w, b, scale, shift []float32) graph {
	return graph{op: "LinearNorm", in: []string{"x", "residual", "w", "b", "scale", "shift"},
		ints: map[string]int{"codes": codes}, floats: map[string]float32{"epsilon": 1e-5},
		constants: [][]byte{constant("w", []int{out, in}, w...), constant("b", []int{out}, b...),
			constant("scale", []int{out}, scale...), constant("shift", []int{out}, shift...)},
		inputs: [][]byte{value("x", float32Type, 2), value("residual", float32Type, 2)}}
}

// LinearNorm against float64, with shapes beside the kernels' tiles.
func TestLinearNorm(t *testing.T) {
	everyISA(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		for _, c := range []struct {
			rows, in, out, codes int
			share                float64
		}{{1, 32, 16, 0, 2e-6}, {7, 33, 65, 0, 2e-6}, {64, 384, 384, 0, 2e-6}, {3, 1536, 31, 0, 2e-6},
			{9, 64, 48, 1, 3e-2}} {
			x, residual := normal(r, c.rows*c.in, 1), normal(r, c.rows*c.out, 3)
			w, b := normal(r, c.out*c.in, 1/math.Sqrt(float64(c.in))), normal(r, c.out, 1)
			scale, shift := normal(r, c.out, 1), normal(r, c.out, 1)
			g := linearNormGraph(c.in, c.out, c.codes, w, b, scale, shift)
			got, err := feed(t, g, nil, []int64{int64(c.rows), int64(c.out)}, matrix{"x", c.rows, c.in, x},
				matrix{"residual", c.rows, c.out, residual})
			if err != nil {
				t.Fatal(err)
			}
			want := make([]float64, 0, len(got))
			for i := range c.rows {
				want = append(want, referenceNorm(x[i*c.in:][:c.in], residual[i*c.out:][:c.out], w, b, scale, shift)...)
			}
			compare(t, got, want, c.share)
		}
	})
}

// referenceNorm is a row of LinearNorm in float64.
func referenceNorm(x, residual, w, b, scale, shift []float32) []float64 {
	y, mean, variance := make([]float64, len(b)), 0., 0.
	for o := range y {
		y[o] = float64(b[o]) + float64(residual[o])
		for i, v := range x {
			y[o] += float64(v) * float64(w[o*len(x)+i])
		}
		mean += y[o] / float64(len(y))
	}
	for _, v := range y {
		variance += (v - mean) * (v - mean) / float64(len(y))
	}
	for o, v := range y {
		y[o] = (v-mean)/math.Sqrt(variance+float64(float32(1e-5)))*float64(scale[o]) + float64(shift[o])
	}
	return y
}

func TestLinearNormRefuses(t *testing.T) {
	ones := []float32{1, 1}
	for name, c := range map[string]struct {
		g       graph
		columns int
		says    string
	}{
		"a residual of a shape": {linearNormGraph(2, 2, 0, []float32{1, 2, 3, 4}, ones, ones, ones), 3,
			"residual of 1×3"},
		"a scale of another size": {linearNormGraph(2, 2, 0, []float32{1, 2, 3, 4}, ones, ones[:1], ones), 2, ""},
	} {
		if name == "a scale of another size" {
			c.g.constants[2] = constant("scale", []int{1}, 1)
			c.says = "2 outputs with 1 values"
		}
		_, err := feed(t, c.g, nil, []int64{1, 2}, matrix{"x", 1, 2, ones},
			matrix{"residual", 1, c.columns, make([]float32, c.columns)})
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Attention against float64: texts of one token and of many, with and without a bias by distance, and scores so large
// that an exponential without the maximum taken off would overflow.
func TestAttention(t *testing.T) {
	everyISA(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 4))
		for _, c := range []struct {
			heads, size, far int // far 0: no bias
			scale            float64
			starts           []int64
			codes            int
		}{{2, 32, 0, 1, []int64{0, 1, 8, 40}, 0}, {3, 16, 0, 1, []int64{0, 67}, 0},
			{2, 8, 40, 1, []int64{0, 3, 36, 37}, 0}, {1, 64, 0, 30, []int64{0, 17, 33}, 0},
			{2, 32, 40, 1, []int64{0, 1, 8, 40}, 1}} {
			rows, width := int(c.starts[len(c.starts)-1]), c.heads*c.size
			qkv := normal(r, rows*3*width, c.scale)
			g := graph{op: "Attention", in: []string{"x", "starts"},
				ints:   map[string]int{"heads": c.heads, "codes": c.codes},
				inputs: [][]byte{value("x", float32Type, 2), value("starts", int64Type, 1)}}
			var bias []float32
			if c.far > 0 {
				bias = normal(r, c.heads*(2*c.far+1), 2)
				g.in = append(g.in, "bias")
				g.constants = [][]byte{constant("bias", []int{c.heads, 2*c.far + 1}, bias...)}
			}
			got, err := run(t, g, qkv, rows, 3*width, c.starts, int64(rows), int64(width))
			if err != nil {
				t.Fatal(err)
			}
			want := make([]float64, len(got))
			for i, from := range c.starts[:len(c.starts)-1] {
				for h := range c.heads {
					referenceHead(qkv, want, int(from), int(c.starts[i+1]), h, c.heads, c.size, c.far, bias)
				}
			}
			// Scores of some thousands have errors of some 1e-4, which the exponential passes on.
			compare(t, got, want, 2e-6*max(1, c.scale*c.scale)+.02*float64(c.codes))
		}
	})
}

// referenceHead is one head of one text in float64.
func referenceHead(qkv []float32, y []float64, from, to, h, heads, size, far int, bias []float32) {
	width := heads * size
	at := func(row, part, i int) float64 { return float64(qkv[row*3*width+part*width+h*size+i]) }
	for q := from; q < to; q++ {
		weights, largest, sum := make([]float64, to-from), math.Inf(-1), 0.
		for k := from; k < to; k++ {
			for i := range size {
				weights[k-from] += at(q, 0, i) * at(k, 1, i) / math.Sqrt(float64(size))
			}
			if bias != nil {
				weights[k-from] += float64(bias[h*(2*far+1)+far+k-q])
			}
			largest = max(largest, weights[k-from])
		}
		for k := range weights {
			weights[k] = math.Exp(weights[k] - largest)
			sum += weights[k]
		}
		for k, w := range weights {
			for i := range size {
				y[q*width+h*size+i] += w / sum * at(from+k, 2, i)
			}
		}
	}
}

func TestAttentionRefuses(t *testing.T) {
	g := graph{op: "Attention", in: []string{"x", "starts"}, ints: map[string]int{"heads": 2, "codes": 0},
		inputs: [][]byte{value("x", float32Type, 2), value("starts", int64Type, 1)}}
	if _, err := run(t, g, make([]float32, 9), 1, 9, []int64{0, 1}, 1, 3); err == nil ||
		!strings.Contains(err.Error(), "9 values for 2 heads") {
		t.Error(err)
	}
	g.ints["heads"] = 0
	if _, err := run(t, g, make([]float32, 6), 1, 6, []int64{0, 1}, 1, 2); err == nil ||
		!strings.Contains(err.Error(), "0 heads") {
		t.Error(err)
	}
	g.ints["heads"], g.in = 2, append(g.in, "bias")
	g.constants = [][]byte{constant("bias", []int{2, 4}, make([]float32, 8)...)} // an even number has no middle
	if _, err := run(t, g, make([]float32, 6), 1, 6, []int64{0, 1}, 1, 2); err == nil ||
		!strings.Contains(err.Error(), "bias of 2×4") {
		t.Error(err)
	}
}
