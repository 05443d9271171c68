package gorgonia

import (
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	"gorgonia.org/tensor"
	"pgregory.net/rapid"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/kernels"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	_ tensor.Engine      = (*Engine)(nil)
	_ tensor.MatMuler    = (*Engine)(nil)
	_ tensor.MatVecMuler = (*Engine)(nil)
	_ tensor.InnerProder = (*Engine)(nil)
	_ tensor.Dotter      = (*Engine)(nil)
)

func newEngine(t testing.TB, o engine.Options) *Engine {
	t.Helper()
	if o.Cores == nil {
		o.Cores = cores.New(3)
	}
	eng, err := engine.New(o)
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(eng)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func numbers(seed uint64, n int) []float32 {
	rng := rand.New(rand.NewPCG(seed, 7))
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(rng.NormFloat64())
	}
	return v
}

// layouts are ways in which the same rows × cols matrix may lie in memory.
var layouts = map[string]func(e tensor.Engine, data []float32, rows, cols int) *tensor.Dense{
	"rows": plain,
	"columns": func(e tensor.Engine, data []float32, rows, cols int) *tensor.Dense {
		return tensor.New(tensor.WithShape(rows, cols), tensor.AsFortran(data), tensor.WithEngine(e))
	},
	"transposed": func(e tensor.Engine, data []float32, rows, cols int) *tensor.Dense {
		t := plain(e, data, cols, rows)
		must(t.T())
		return t
	},
	"transposed columns": func(e tensor.Engine, data []float32, rows, cols int) *tensor.Dense {
		t := tensor.New(tensor.WithShape(cols, rows), tensor.AsFortran(data), tensor.WithEngine(e))
		must(t.T())
		return t
	},
	"moved": func(e tensor.Engine, data []float32, rows, cols int) *tensor.Dense {
		t := plain(e, data, cols, rows)
		must(t.T())
		must(t.Transpose())
		return t
	},
	"window": func(e tensor.Engine, data []float32, rows, cols int) *tensor.Dense {
		t := plain(e, numbers(5, (rows+3)*(cols+4)), rows+3, cols+4)
		return slice(t, tensor.S(1, rows+1), tensor.S(2, cols+2))
	},
	"every third column": func(e tensor.Engine, data []float32, rows, cols int) *tensor.Dense {
		return slice(plain(e, numbers(6, rows*3*cols), rows, 3*cols), nil, tensor.S(0, 3*cols, 3))
	},
	"transposed window": func(e tensor.Engine, data []float32, rows, cols int) *tensor.Dense {
		t := slice(plain(e, numbers(8, (cols+2)*(rows+5)), cols+2, rows+5), tensor.S(2, cols+2), tensor.S(0, rows))
		must(t.T())
		return t
	},
}

func plain(e tensor.Engine, data []float32, rows, cols int) *tensor.Dense {
	return tensor.New(tensor.WithShape(rows, cols), tensor.WithBacking(data), tensor.WithEngine(e))
}

func slice(t *tensor.Dense, s ...tensor.Slice) *tensor.Dense {
	v, err := t.Slice(s...)
	must(err)
	return v.(*tensor.Dense)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func layout(t *rapid.T, label string, e tensor.Engine, rows, cols int) *tensor.Dense {
	names := make([]string, 0, len(layouts))
	for name := range layouts {
		if min(rows, cols) > 1 || name == "rows" { // slices drop dimensions of 1
			names = append(names, name)
		}
	}
	name := rapid.SampledFrom(sorted(names)).Draw(t, label)
	return layouts[name](e, numbers(rapid.Uint64Range(0, 99).Draw(t, label+" seed"), rows*cols), rows, cols)
}

func sorted(names []string) []string {
	for i := range names {
		for j := i; j > 0 && names[j] < names[j-1]; j-- {
			names[j], names[j-1] = names[j-1], names[j]
		}
	}
	return names
}

// table copies what a tensor shows, element by element by tensor's own At.
func table(t interface{ Fatal(...any) }, x *tensor.Dense) [][]float64 {
	rows := make([][]float64, x.Shape()[0])
	for i := range rows {
		if x.Dims() == 1 {
			v, err := x.At(i)
			if err != nil {
				t.Fatal(err)
			}
			rows[i] = []float64{float64(v.(float32))}
			continue
		}
		for j := range x.Shape()[1] {
			v, err := x.At(i, j)
			if err != nil {
				t.Fatal(err)
			}
			rows[i] = append(rows[i], float64(v.(float32)))
		}
	}
	return rows
}

// expect checks got = a·b + plus within the error of a float32 sum.
func expect(t interface {
	Fatal(...any)
	Fatalf(string, ...any)
}, a, b, plus [][]float64, got *tensor.Dense) {
	for i, row := range table(t, got) {
		for j, g := range row {
			var want, size float64
			for k := range b {
				want += a[i][k] * b[k][j]
				size += math.Abs(a[i][k] * b[k][j])
			}
			if plus != nil {
				want += plus[i][j]
				size += math.Abs(plus[i][j])
			}
			if limit := float64(len(b)+2) * 0x1p-23 * size; math.Abs(g-want) > limit {
				t.Fatalf("[%d][%d] = %v, want %v within %v", i, j, g, want, limit)
			}
		}
	}
}

// TestMatMul: random shapes, layouts and options.
func TestMatMul(t *testing.T) {
	e := newEngine(t, engine.Options{})
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 100})
		m, k, n := size.Draw(t, "m"), size.Draw(t, "k"), size.Draw(t, "n")
		a, b := layout(t, "a", e, m, k), layout(t, "b", e, k, n)
		if m == 1 && k == 1 || k == 1 && n == 1 {
			t.Skip("1×1 is a scalar to some of tensor's functions: TestMatMulOfOneByOne")
		}
		wantA, wantB := table(t, a), table(t, b)
		var opts []tensor.FuncOpt
		var plus [][]float64
		var reuse, incr *tensor.Dense
		switch rapid.SampledFrom([]string{"", "reuse", "incr", "both", "unsafe"}).Draw(t, "options") {
		case "reuse":
			reuse = plain(e, numbers(11, m*n), m, n)
			opts = append(opts, tensor.WithReuse(reuse))
		case "unsafe":
			reuse = plain(e, numbers(11, m*n), m, n)
			opts = append(opts, tensor.WithReuse(reuse), tensor.UseUnsafe())
		case "incr":
			incr = plain(e, numbers(12, m*n), m, n)
			plus, opts = table(t, incr), append(opts, tensor.WithIncr(incr))
		case "both":
			reuse, incr = plain(e, numbers(11, m*n), m, n), plain(e, numbers(12, m*n), m, n)
			plus, opts = table(t, incr), append(opts, tensor.WithReuse(reuse), tensor.WithIncr(incr))
		}
		got, err := tensor.MatMul(a, b, opts...)
		if err != nil {
			t.Fatal(err)
		}
		if incr != nil && got != tensor.Tensor(incr) || incr == nil && reuse != nil && got != tensor.Tensor(reuse) {
			t.Fatal("the result is another tensor than the one given")
		}
		if n > 1 || m > 1 { // At does not know the strides of some column-major vectors
			expect(t, wantA, wantB, plus, rowMajor(got.(*tensor.Dense)))
		}
	})
}

// rowMajor gives column-major vectors, of which tensor keeps only one stride, two of them.
func rowMajor(x *tensor.Dense) *tensor.Dense {
	if len(x.Strides()) == len(x.Shape()) {
		return x
	}
	return tensor.New(tensor.WithShape(x.Shape()...), tensor.WithBacking(x.Float32s()))
}

// TestLikeStdEng compares with the default engine where that is right: contiguous tensors and their transposes.
func TestLikeStdEng(t *testing.T) {
	e := newEngine(t, engine.Options{})
	rng := rand.New(rand.NewPCG(3, 3))
	for _, la := range []string{"rows", "transposed", "moved"} {
		for _, lb := range []string{"rows", "transposed", "moved"} {
			m, k, n := 2+rng.IntN(90), 2+rng.IntN(90), 2+rng.IntN(90)
			x, y, v := numbers(1, m*k), numbers(2, k*n), numbers(3, k)
			product := func(e tensor.Engine) (mm, mv, vm, in *tensor.Dense) {
				a, b := layouts[la](e, append([]float32{}, x...), m, k), layouts[lb](e, append([]float32{}, y...), k, n)
				w := tensor.New(tensor.WithBacking(append([]float32{}, v...)), tensor.WithEngine(e))
				do := func(p tensor.Tensor, err error) *tensor.Dense {
					if err != nil {
						t.Fatal(err)
					}
					return p.(*tensor.Dense)
				}
				mm, mv = do(tensor.Dot(a, b)), do(tensor.Dot(a, w))
				in = do(tensor.Dot(w, w))
				return mm, mv, do(tensor.Dot(w, b)), in
			}
			mm1, mv1, vm1, in1 := product(e)
			mm2, mv2, vm2, in2 := product(tensor.StdEng{})
			for _, p := range [][2]*tensor.Dense{{mm1, mm2}, {mv1, mv2}, {vm1, vm2}, {in1, in2}} {
				if !p[0].Shape().Eq(p[1].Shape()) || p[0].Dtype() != p[1].Dtype() {
					t.Fatalf("%s × %s: %v %v, want %v", la, lb, p[0].Shape(), p[0].Dtype(), p[1].Shape())
				}
				for i, want := range p[1].Float32s() {
					if got := p[0].Float32s()[i]; math.Abs(float64(got-want)) > 1e-4 {
						t.Fatalf("%s × %s: value %d is %v, want %v", la, lb, i, got, want)
					}
				}
			}
		}
	}
}

func TestMatVecMul(t *testing.T) {
	e := newEngine(t, engine.Options{})
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{2, 3, 7, 8, 33, 100, 300})
		m, k := size.Draw(t, "m"), size.Draw(t, "k")
		a := layout(t, "a", e, m, k)
		v := []*tensor.Dense{
			tensor.New(tensor.WithBacking(numbers(4, k)), tensor.WithEngine(e)),
			plain(e, numbers(4, k), k, 1),
			plain(e, numbers(4, k), 1, k),
			slice(plain(e, numbers(4, 5*k), k, 5), nil, tensor.S(2)),
		}[rapid.IntRange(0, 3).Draw(t, "vector")]
		column := table(t, v)
		if v.Dims() == 2 && v.Shape()[0] == 1 {
			must(v.T())
			column = table(t, v)
			v.UT()
		}
		got, err := tensor.MatVecMul(a, v)
		if err != nil {
			t.Fatal(err)
		}
		expect(t, table(t, a), column, nil, got.(*tensor.Dense))
	})
	a, v := plain(e, numbers(1, 6), 2, 3), plain(e, numbers(2, 3), 3, 1)
	reuse, incr := tensor.New(tensor.WithBacking([]float32{9, 9})), tensor.New(tensor.WithBacking([]float32{1, 2}))
	if got, err := tensor.MatVecMul(a, v, tensor.WithReuse(reuse), tensor.WithIncr(incr)); err != nil ||
		got != tensor.Tensor(incr) {
		t.Errorf("%v, %v", got, err)
	}
	expect(t, table(t, a), table(t, v), [][]float64{{1}, {2}}, incr)
}

func TestInner(t *testing.T) {
	e := newEngine(t, engine.Options{})
	for _, n := range []int{2, 7, 8, 1000} {
		x, y := numbers(1, n), numbers(2, n)
		var want float64
		for i := range x {
			want += float64(x[i]) * float64(y[i])
		}
		wide := make([]float32, 4*n)
		for i := range y {
			wide[4*i+1] = y[i]
		}
		a, b := tensor.New(tensor.WithBacking(x), tensor.WithEngine(e)),
			tensor.New(tensor.WithBacking(y), tensor.WithEngine(e))
		column := slice(plain(e, wide, n, 4), nil, tensor.S(1))
		got, err := tensor.Inner(a, b)
		if v, ok := got.(float32); err != nil || !ok || math.Abs(float64(v)-want) > math.Abs(want)*0x1p-23 {
			t.Errorf("%v, %v, want %v", got, err, want)
		}
		for _, right := range []tensor.Tensor{b, column} {
			dot, err := tensor.Dot(a, right)
			if err != nil || !dot.Shape().IsScalar() || dot.Data() != got {
				t.Errorf("%v, %v, want %v", dot, err, got)
			}
		}
	}
}

// TestUsesTheTiles: a product of matrices is one of the engine's, as its progress shows, and matches its result.
func TestUsesTheTiles(t *testing.T) {
	var pairs atomic.Int64
	e := newEngine(t, engine.Options{Progress: func(done, _ int64) { pairs.Store(done) }})
	for _, dtype := range []kernels.DType{kernels.F32, kernels.BF16x3} {
		e.DType = dtype
		a, b := plain(e, numbers(1, 200*300), 200, 300), plain(e, numbers(2, 300*100), 300, 100)
		pairs.Store(0)
		got, err := tensor.MatMul(a, b)
		if errors.Is(err, kernels.ErrISA) {
			t.Logf("SKIP %s: %v", dtype, err)
			continue
		}
		if err != nil || pairs.Load() != 200*100 {
			t.Fatalf("%s: %v; the engine has done %d pairs", dtype, err, pairs.Load())
		}
		// bf16x3 has another bound: 2⁻¹⁶ of the terms' sizes
		for i, row := range table(t, got.(*tensor.Dense)) {
			x, y := table(t, a), table(t, b)
			for j, g := range row[:3] {
				var want float64
				for k := range y {
					want += x[i][k] * y[k][j]
				}
				if math.Abs(g-want) > 2e-3 {
					t.Fatalf("%s: [%d][%d] = %v, want %v", dtype, i, j, g, want)
				}
			}
			if i > 3 {
				break
			}
		}
	}
}

// TestWideRange: elements far below the largest keep their digits, as in any float32 product, whether the rows are
// too long for the tiles or just not.
func TestWideRange(t *testing.T) {
	e := newEngine(t, engine.Options{})
	for _, top := range []int{60, 34} {
		const n = 80
		x, y := numbers(1, n*n), numbers(2, n*n)
		for i := range n {
			for k := range n {
				x[i*n+k] *= float32(math.Ldexp(1, top-2*i))
				y[k*n+i] *= float32(math.Ldexp(1, 30-i))
			}
		}
		a, b := plain(e, x, n, n), plain(e, y, n, n)
		got, err := tensor.MatMul(a, b)
		if err != nil {
			t.Fatal(err)
		}
		wantA, wantB := table(t, a), table(t, b)
		for i, row := range table(t, got.(*tensor.Dense)) {
			for j, g := range row {
				var want, size float64
				for k := range n {
					want += wantA[i][k] * wantB[k][j]
					size += math.Abs(wantA[i][k] * wantB[k][j])
				}
				if math.Abs(g-want) > 0x1p-20*size+n*math.SmallestNonzeroFloat32 {
					t.Fatalf("from 2^%d: [%d][%d] = %v, want %v", top, i, j, g, want)
				}
			}
		}
	}
}

// TestNonFinite: NaN and infinities come out where the default engine has them.
func TestNonFinite(t *testing.T) {
	e := newEngine(t, engine.Options{})
	for _, n := range []int{3, 90} {
		x, y := numbers(1, n*n), numbers(2, n*n)
		x[n+1], x[2*n], y[n] = float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))
		product := func(e tensor.Engine) (m, v []float32) {
			a, b := plain(e, append([]float32{}, x...), n, n), plain(e, append([]float32{}, y...), n, n)
			c, err := tensor.MatMul(a, b)
			if err != nil {
				t.Fatal(err)
			}
			w, err := tensor.MatVecMul(a, tensor.New(tensor.WithBacking(y[n:2*n]), tensor.WithEngine(e)))
			if err != nil {
				t.Fatal(err)
			}
			return c.Data().([]float32), w.Data().([]float32)
		}
		m1, v1 := product(e)
		m2, v2 := product(tensor.StdEng{})
		for name, p := range map[string][2][]float32{"matrix": {m1, m2}, "vector": {v1, v2}} {
			odd := 0
			for i, want := range p[1] {
				w, g := float64(want), float64(p[0][i])
				finite := w-w == 0
				if !finite {
					odd++
				}
				if finite && math.Abs(w-g) > 1e-4 || !finite && g != w && !(math.IsNaN(g) && math.IsNaN(w)) {
					t.Errorf("%s %d: value %d is %v, want %v", name, n, i, g, w)
				}
			}
			if odd < n/2 {
				t.Errorf("%s %d: only %d are not finite", name, n, odd)
			}
		}
		v, err := tensor.Inner(tensor.New(tensor.WithBacking(x[2*n:]), tensor.WithEngine(e)),
			tensor.New(tensor.WithBacking(y[n:2*n+n*(n-3)]), tensor.WithEngine(e)))
		if f, ok := v.(float32); err != nil || !ok || !math.IsInf(float64(f), -1) {
			t.Errorf("inner product: %v, %v", v, err)
		}
	}
}

// TestOverlap: an operand as the reuse tensor gives the product of what it held.
func TestOverlap(t *testing.T) {
	e := newEngine(t, engine.Options{})
	for _, n := range []int{5, 100} {
		a, b := plain(e, numbers(1, n*n), n, n), plain(e, numbers(2, n*n), n, n)
		wantA, wantB := table(t, a), table(t, b)
		got, err := tensor.MatMul(a, b, tensor.WithReuse(a))
		if err != nil || got != tensor.Tensor(a) {
			t.Fatal(got, err)
		}
		expect(t, wantA, wantB, nil, a)
	}
}

// TestOthersAreDelegated: what is not ours gives the default engine's bits.
func TestOthersAreDelegated(t *testing.T) {
	e := newEngine(t, engine.Options{})
	x, y := make([]float64, 12), make([]float64, 12)
	for i := range x {
		x[i], y[i] = float64(i)/3, float64(5-i)/7
	}
	product := func(e tensor.Engine) []float64 {
		c, err := tensor.MatMul(tensor.New(tensor.WithShape(3, 4), tensor.WithBacking(x), tensor.WithEngine(e)),
			tensor.New(tensor.WithShape(4, 3), tensor.WithBacking(y), tensor.WithEngine(e)))
		if err != nil {
			t.Fatal(err)
		}
		return c.Data().([]float64)
	}
	got, want := product(e), product(tensor.StdEng{})
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("float64: %v, want %v", got, want)
		}
	}
	mask := make([]bool, 4)
	mask[2] = true
	masked := tensor.New(tensor.WithShape(2, 2), tensor.WithBacking([]float32{1, 2, 3, 4}, mask), tensor.WithEngine(e))
	if c, err := tensor.MatMul(masked, plain(e, []float32{1, 0, 0, 1}, 2, 2)); err != nil ||
		c.Data().([]float32)[2] != 3 {
		t.Errorf("masked: %v, %v", c, err)
	}
	scalar := tensor.New(tensor.FromScalar(float32(2)), tensor.WithEngine(e))
	if c, err := tensor.Dot(scalar, plain(e, []float32{1, 2, 3, 4}, 2, 2)); err != nil || c.Data().([]float32)[3] != 8 {
		t.Errorf("scalar: %v, %v", c, err)
	}
	sum, err := tensor.Add(plain(e, []float32{1, 2}, 1, 2), plain(e, []float32{3, 4}, 1, 2))
	if err != nil || sum.Engine() != tensor.Engine(e) || sum.Data().([]float32)[1] != 6 {
		t.Errorf("sum: %v, %v", sum, err)
	}
	cube := tensor.New(tensor.WithShape(2, 3, 4), tensor.WithBacking(numbers(1, 24)), tensor.WithEngine(e))
	if c, err := tensor.Dot(cube,
		tensor.New(tensor.WithShape(4, 5), tensor.WithBacking(numbers(2, 20)), tensor.WithEngine(e))); err != nil ||
		!c.Shape().Eq(tensor.Shape{2, 3, 5}) {
		t.Errorf("more dimensions: %v, %v", c, err)
	}
}

// TestRefuses: what does not fit is an error of tensor or ErrShape, never a panic.
func TestRefuses(t *testing.T) {
	e := newEngine(t, engine.Options{})
	m := func(rows, cols int) *tensor.Dense { return plain(e, numbers(1, rows*cols), rows, cols) }
	v := tensor.New(tensor.WithBacking(numbers(1, 4)), tensor.WithEngine(e))
	small := func(opts ...tensor.FuncOpt) error { _, err := tensor.MatMul(m(2, 3), m(3, 4), opts...); return err }
	double := tensor.New(tensor.WithShape(3, 4), tensor.Of(tensor.Float64), tensor.WithEngine(e))
	for name, err := range map[string]error{
		"inner dimension": func() error { _, err := tensor.MatMul(m(2, 3), m(2, 3)); return err }(),
		"reuse":           small(tensor.WithReuse(m(3, 3))),
		"incr":            small(tensor.WithIncr(m(3, 3))),
		"vector":          func() error { _, err := tensor.MatVecMul(m(2, 3), v); return err }(),
		"inner":           func() error { _, err := tensor.Inner(v, m(1, 3)); return err }(),
		"dot":             func() error { _, err := tensor.Dot(v, m(1, 3)); return err }(),
		"types":           func() error { _, err := tensor.MatMul(m(2, 3), double); return err }(),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for name, err := range map[string]error{
		"unsafe reuse":     small(tensor.WithReuse(m(2, 2)), tensor.UseUnsafe()),
		"direct MatMul":    e.MatMul(m(2, 3), m(4, 2), m(2, 2)),
		"of vectors":       e.MatMul(v, m(4, 2), m(1, 2)),
		"double reuse":     e.MatMul(double, double, double),
		"direct MatVecMul": e.MatVecMul(m(2, 3), m(2, 2), m(2, 1)),
		"direct Inner":     func() error { _, err := e.Inner(v, m(2, 2)); return err }(),
	} {
		if !errors.Is(err, kernels.ErrShape) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := e.MatMul(m(2, 3), m(3, 4), tensor.New(tensor.WithShape(2, 4), tensor.Of(tensor.Float64))); err == nil {
		t.Error("a float64 result of float32 factors")
	}
}

// TestNothing: dimensions of 0, which tensor itself can hardly hold, end no process.
func TestNothing(t *testing.T) {
	e := newEngine(t, engine.Options{})
	c := view{data: []float32{7, 7, 7, 7}, rows: 2, cols: 2, down: 2, right: 1}
	if err := e.multiply(view{rows: 2}, view{rows: 2}, c); err != nil || c.data[0] != 0 || c.data[3] != 0 {
		t.Errorf("an empty sum: %v, %v", c.data, err)
	}
	if err := e.multiply(view{cols: 3}, view{rows: 2, cols: 3, data: make([]float32, 6), down: 3, right: 1},
		view{cols: 2}); err != nil {
		t.Error(err)
	}
	if err := e.multiply(view{rows: 2, cols: 3, down: 3, right: 1, data: make([]float32, 5)},
		view{rows: 2, cols: 3, down: 3, right: 1, data: make([]float32, 6)}, c); !errors.Is(err, kernels.ErrShape) {
		t.Errorf("a view that leaves its memory: %v", err)
	}
}

// TestConcurrent: one engine, many goroutines (for the race detector).
func TestConcurrent(t *testing.T) {
	e := newEngine(t, engine.Options{})
	a, b := plain(e, numbers(1, 120*90), 120, 90), plain(e, numbers(2, 90*110), 90, 110)
	want, err := tensor.MatMul(a, b)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			for range 5 {
				got, err := tensor.MatMul(a, b)
				if err != nil || !got.(*tensor.Dense).Eq(want) {
					t.Errorf("another product: %v", err)
				}
			}
		})
	}
	all.Wait()
}
