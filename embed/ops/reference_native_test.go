//go:build native

package ops

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/kernels/cpu"
)

// everyISA runs a test once for each instruction set for which this machine has kernels of the operators, with AMX
// emulated, and with Winograd's products.
func everyISA(t *testing.T, test func(t *testing.T)) {
	names := []string{cpu.EmulatedAMX}
	for _, isa := range cpu.Available() {
		names = append(names, isa.String(), isa.String()+cpu.Winograd)
	}
	for _, name := range names {
		if _, err := cpu.Open(name); err != nil {
			continue // not in this build or not on this machine
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

// compare fails if a value differs from the reference by more than a share of 1 + its size, and logs the largest
// error.
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

// TestLinearNorm compares LinearNorm with float64, for shapes that do not fill the kernels' tiles.
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

// referenceNorm computes a row of LinearNorm in float64.
func referenceNorm(x, residual, w, b, scale, shift []float32) []float64 {
	y := referenceLinear(widened(x), w, b)
	for o := range y {
		y[o] += float64(residual[o])
	}
	normalise(y, scale, shift)
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

// layerSizes holds the sizes of a Layer.
type layerSizes struct {
	hidden, heads, size, wide, far int // far 0: no bias
	codes                          int
}

// layerGraph returns a graph with one Layer with GELU and random constants, and these constants by name.
func layerGraph(r *rand.Rand, s layerSizes) (graph, map[string][]float32) {
	g := graph{op: "Layer", in: []string{"x", "starts"},
		ints:   map[string]int{"heads": s.heads, "activation": 1, "codes": s.codes},
		floats: map[string]float32{"epsilon": 1e-5},
		inputs: [][]byte{value("x", float32Type, 2), value("starts", int64Type, 1)}}
	values, width := map[string][]float32{}, s.heads*s.size
	add := func(name string, scale float64, dims ...int) {
		n := 1
		for _, d := range dims {
			n *= d
		}
		values[name] = normal(r, n, scale)
		g.in, g.constants = append(g.in, name), append(g.constants, constant(name, dims, values[name]...))
	}
	square := 1 / math.Sqrt(float64(s.hidden))
	for _, name := range []string{"wq", "wk", "wv"} {
		add(name, square, width, s.hidden)
	}
	for _, name := range []string{"bq", "bk", "bv"} {
		add(name, .5, width)
	}
	add("wo", square, s.hidden, width)
	for _, name := range []string{"bo", "scale1", "shift1"} {
		add(name, 1, s.hidden)
	}
	add("wu", square, s.wide, s.hidden)
	add("bu", 1, s.wide)
	add("wd", 1/math.Sqrt(float64(s.wide)), s.hidden, s.wide)
	for _, name := range []string{"bd", "scale2", "shift2"} {
		add(name, 1, s.hidden)
	}
	if s.far > 0 {
		add("bias", 2, s.heads, 2*s.far+1)
	}
	return g, values
}

// TestLayer compares Layer with float64: for texts with no token, one token and many, with and without a bias by
// distance, with 8 bits, and with scores so large that an exponential would overflow if the maximum were not
// subtracted.
func TestLayer(t *testing.T) {
	everyISA(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 4))
		for _, c := range []struct {
			layerSizes
			scale  float64 // of the queries' and keys' weights
			starts []int64
			share  float64
		}{{layerSizes{64, 2, 32, 256, 0, 0}, 1, []int64{0, 1, 1, 8, 40}, 3e-6},
			{layerSizes{48, 3, 16, 100, 0, 0}, 1, []int64{0, 67}, 3e-6},
			{layerSizes{33, 2, 8, 31, 40, 0}, 1, []int64{0, 3, 36, 37}, 3e-6},
			{layerSizes{16, 1, 16, 8192, 0, 0}, 1, []int64{0, 70, 100}, 3e-6}, // more rows than are processed together
			{layerSizes{64, 1, 64, 64, 0, 0}, 20, []int64{0, 17, 33}, 1e-3},
			{layerSizes{64, 2, 32, 256, 0, 1}, 1, []int64{0, 1, 8, 40}, .04},
			{layerSizes{33, 2, 20, 70, 40, 1}, 1, []int64{0, 33, 34}, .06},
			{layerSizes{8, 1, 8, 8, 0, 0}, 1, []int64{0, 0}, 0}} {
			g, values := layerGraph(r, c.layerSizes)
			if c.scale > 1 {
				for i, name := range []string{"wq", "wk"} {
					for j := range values[name] {
						values[name][j] *= float32(c.scale)
					}
					g.constants[i] = constant(name, []int{c.heads * c.size, c.hidden}, values[name]...)
				}
			}
			rows := int(c.starts[len(c.starts)-1])
			x := normal(r, rows*c.hidden, 1)
			got, err := run(t, g, x, rows, c.hidden, c.starts, int64(rows), int64(c.hidden))
			if err != nil {
				t.Fatal(err)
			}
			compare(t, got, referenceLayer(c.layerSizes, values, x, c.starts), c.share)
		}
	})
}

// referenceLayer computes a Layer in float64; its attention uses queries, keys and values rounded to float32.
func referenceLayer(s layerSizes, values map[string][]float32, x []float32, starts []int64) []float64 {
	rows, width := int(starts[len(starts)-1]), s.heads*s.size
	qkv := make([]float32, rows*3*width)
	for row := range rows {
		for part, names := range [][2]string{{"wq", "bq"}, {"wk", "bk"}, {"wv", "bv"}} {
			in := widened(x[row*s.hidden:][:s.hidden])
			for o, y := range referenceLinear(in, values[names[0]], values[names[1]]) {
				qkv[(row*3+part)*width+o] = float32(y)
			}
		}
	}
	mixed := make([]float64, rows*width)
	for i, from := range starts[:len(starts)-1] {
		for h := range s.heads {
			referenceHead(qkv, mixed, int(from), int(starts[i+1]), h, s.heads, s.size, s.far, values["bias"])
		}
	}
	var all []float64
	for row := range rows {
		h := referenceLinear(mixed[row*width:][:width], values["wo"], values["bo"])
		for i, v := range x[row*s.hidden:][:s.hidden] {
			h[i] += float64(v)
		}
		normalise(h, values["scale1"], values["shift1"])
		wide := referenceLinear(h, values["wu"], values["bu"])
		for i, v := range wide {
			wide[i] = v / 2 * (1 + math.Erf(v/math.Sqrt2))
		}
		y := referenceLinear(wide, values["wd"], values["bd"])
		for i := range y {
			y[i] += h[i]
		}
		normalise(y, values["scale2"], values["shift2"])
		all = append(all, y...)
	}
	return all
}

func widened(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

func referenceLinear(x []float64, w, b []float32) []float64 {
	y := widened(b)
	for o := range y {
		for i, v := range x {
			y[o] += v * float64(w[o*len(x)+i])
		}
	}
	return y
}

// normalise applies layer normalisation to a row.
func normalise(y []float64, scale, shift []float32) {
	mean, variance := 0., 0.
	for _, v := range y {
		mean += v / float64(len(y))
	}
	for _, v := range y {
		variance += (v - mean) * (v - mean) / float64(len(y))
	}
	for o, v := range y {
		y[o] = (v-mean)/math.Sqrt(variance+float64(float32(1e-5)))*float64(scale[o]) + float64(shift[o])
	}
}

// referenceHead computes one head of one text in float64.
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

// TestLayerRefuses checks that mismatched constants are refused when the session is created, and mismatched inputs by
// the call.
func TestLayerRefuses(t *testing.T) {
	sizes := layerSizes{8, 2, 4, 16, 3, 0}
	ones := func(g *graph, name string, dims ...int) {
		for i, in := range g.in[2:] {
			if in == name {
				n := 1
				for _, d := range dims {
					n *= d
				}
				g.constants[i] = constant(name, dims, make([]float32, n)...)
			}
		}
	}
	for says, change := range map[string]func(g *graph){
		"with 0 heads":                   func(g *graph) { g.ints["heads"] = 0 },
		"24 values for 3 heads":          func(g *graph) { g.ints["heads"] = 3; ones(g, "bias", 3, 7) },
		"bias of 2×4":                    func(g *graph) { ones(g, "bias", 2, 4) }, // an even number has no middle
		"and 8×6 weights behind":         func(g *graph) { ones(g, "wo", 8, 6) },
		"normalisation of 8 outputs":     func(g *graph) { ones(g, "scale1", 7) },
		"8 values to 16×8 and 8×15":      func(g *graph) { ones(g, "wd", 8, 15) },
		"3 biases":                       func(g *graph) { ones(g, "bu", 3) },
		"others with 8 inputs":           func(g *graph) { ones(g, "wk", 8, 2) },
		"9 values a token where a layer": func(*graph) {},
		"texts from row 0 to 1 of 2":     func(*graph) {},
		"text 1 is the rows 0 to 5":      func(*graph) {},
	} {
		g, _ := layerGraph(rand.New(rand.NewPCG(1, 2)), sizes)
		change(&g)
		rows, columns, starts := 2, 8, []int64{0, 2}
		switch says[0] {
		case '9':
			columns = 9
		case 't':
			starts = []int64{0, 1}
		}
		if strings.HasPrefix(says, "text 1") { // longer than the bias covers
			rows, starts, says = 5, []int64{0, 0, 5}, "texts 0 to 2"
		}
		_, err := run(t, g, make([]float32, rows*columns), rows, columns, starts, int64(rows), 8)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", says, err)
		}
	}
}
