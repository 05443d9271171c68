package ref

import (
	"encoding/json"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rag/sluice/kernels"
)

type golden struct {
	Pairs []struct {
		Kind         string
		A, B, Scores []string
	}
	Quantiles []struct {
		Values, Quantiles []string
		Levels            []float64
	}
	Moments []struct {
		Values    []string
		Mean, Std string
	}
}

func readGolden(t *testing.T) (g golden) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

func hexBits(t *testing.T, s string) uint64 {
	t.Helper()
	b, err := strconv.ParseUint(s, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func floats32(t *testing.T, hex []string) (v []float32) {
	for _, h := range hex {
		v = append(v, math.Float32frombits(uint32(hexBits(t, h))))
	}
	return v
}

func floats64(t *testing.T, hex []string) (v []float64) {
	for _, h := range hex {
		v = append(v, math.Float64frombits(hexBits(t, h)))
	}
	return v
}

// TestScoreEqualsNumPy compares every bit with an independent implementation.
func TestScoreEqualsNumPy(t *testing.T) {
	g := readGolden(t)
	if len(g.Pairs) < 50 {
		t.Fatalf("only %d golden pairs", len(g.Pairs))
	}
	for _, p := range g.Pairs {
		a, b, want := floats32(t, p.A), floats32(t, p.B), floats64(t, p.Scores)
		for i, m := range []kernels.Metric{kernels.Cosine, kernels.IP, kernels.L2} {
			if got := Score(m, a, b); got != want[i] {
				t.Errorf("%s %s of dim %d: %v, NumPy %v", p.Kind, m, len(a), got, want[i])
			}
		}
	}
}

// TestQuantile7EqualsNumPy allows for NumPy's interpolation from the upper end where f ≥ ½.
func TestQuantile7EqualsNumPy(t *testing.T) {
	for _, q := range readGolden(t).Quantiles {
		values, want := floats64(t, q.Values), floats64(t, q.Quantiles)
		slices.Sort(values)
		for i, p := range q.Levels {
			if got := Quantile7(values, p); math.Abs(got-want[i]) > 4e-16*max(1, math.Abs(want[i])) {
				t.Errorf("quantile %v of %d values: %v, NumPy %v", p, len(values), got, want[i])
			}
		}
	}
	if Quantile7(nil, .5) != 0 {
		t.Error("quantile of nothing")
	}
}

// TestKolmogorovSmirnovEqualsGonum: the expected values were computed with gonum.org/v1/gonum/stat v0.17.0; for empty
// lists, which gonum refuses, they follow from the definition.
func TestKolmogorovSmirnovEqualsGonum(t *testing.T) {
	for _, c := range []struct {
		a, b []float64
		want float64
	}{
		{[]float64{1, 2, 3}, []float64{1, 2, 3}, 0},
		{[]float64{1, 2, 2, 3}, []float64{2, 2, 2, 9}, .25},
		{[]float64{-3, -1, 0, .5, .5, 2}, []float64{-2, .5, 1, 1, 4, 7, 9}, .5476190476190476},
		{[]float64{1, 2}, []float64{5, 6, 7}, 1},
		{[]float64{.1, .4, .4, .4, .9}, []float64{.4}, .2},
		{nil, []float64{1}, 1}, {nil, nil, 0},
	} {
		for _, got := range []float64{KolmogorovSmirnov(c.a, c.b), KolmogorovSmirnov(c.b, c.a)} {
			if math.Abs(got-c.want) > 1e-15 {
				t.Errorf("%v and %v: %v, not %v", c.a, c.b, got, c.want)
			}
		}
	}
}

func TestSummariseEqualsNumPy(t *testing.T) {
	for _, m := range readGolden(t).Moments {
		var pairs []Pair
		for i, x := range floats64(t, m.Values) {
			pairs = append(pairs, Pair{int32(i / 10), int32(i % 10), x})
		}
		s := Summarise(pairs, nil)
		mean, std := floats64(t, []string{m.Mean})[0], floats64(t, []string{m.Std})[0]
		if math.Abs(s.Mean-mean) > 1e-15*max(1, math.Abs(mean)) || math.Abs(s.Std-std) > 1e-12 {
			t.Errorf("mean %v std %v, NumPy %v %v", s.Mean, s.Std, mean, std)
		}
	}
	same := Summarise([]Pair{{0, 1, .1}, {0, 2, .1}, {3, 0, .1}}, []float64{.5})
	if same.Mean != .1 || same.Std != 0 || same.Min != (Pair{0, 1, .1}) || same.Max != (Pair{0, 1, .1}) {
		t.Errorf("equal values: %+v", same)
	}
	if none := Summarise(nil, []float64{.5}); none.N != 0 || none.Min.Query != -1 || none.Quantiles[0] != 0 {
		t.Errorf("no values: %+v", none)
	}
}

// TestProductsAreExact checks the property that makes fused and unfused kernels equal.
func TestProductsAreExact(t *testing.T) {
	extremes := []float32{0, 1, math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32, math.MaxFloat32,
		-math.MaxFloat32, 1.1754944e-38, 1 + 1.0/(1<<23), 16777215}
	rapid.Check(t, func(t *rapid.T) {
		pick := rapid.OneOf(rapid.SampledFrom(extremes), rapid.Float32Range(-math.MaxFloat32, math.MaxFloat32))
		a, b := pick.Draw(t, "a"), pick.Draw(t, "b")
		exact := new(big.Float).SetPrec(200).Mul(big.NewFloat(float64(a)), big.NewFloat(float64(b)))
		if got := new(big.Float).SetFloat64(float64(a) * float64(b)); got.Cmp(exact) != 0 {
			t.Fatalf("%v·%v = %v, exactly %v", a, b, got, exact)
		}
	})
}

func TestScoreProperties(t *testing.T) {
	element := rapid.Float32Range(-math.MaxFloat32, math.MaxFloat32)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "dim")
		a := rapid.SliceOfN(element, n, n).Draw(t, "a")
		b := rapid.SliceOfN(element, n, n).Draw(t, "b")
		zero := make([]float32, n)
		for _, m := range []kernels.Metric{kernels.Cosine, kernels.IP, kernels.L2} {
			s := Score(m, a, b)
			if math.IsNaN(s) || math.IsInf(s, 0) {
				t.Fatalf("%s is %v on finite input", m, s)
			}
			if s != Score(m, b, a) {
				t.Fatalf("%s is not symmetric", m)
			}
			if math.Signbit(s) && s == 0 {
				t.Fatalf("%s is -0", m)
			}
		}
		if c := Score(kernels.Cosine, a, b); c < -1 || c > 1 {
			t.Fatalf("cosine %v", c)
		}
		if c := Score(kernels.Cosine, a, zero); c != 0 {
			t.Fatalf("cosine with zero %v", c)
		}
		if d := Score(kernels.L2, a, a); d != 0 {
			t.Fatalf("distance to itself %v", d)
		}
	})
}

func TestForeign(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(t, "contexts")
		owner := rapid.IntRange(0, n-1).Draw(t, "owner")
		k := rapid.IntRange(1, 80).Draw(t, "perQuery")
		seed, query := rapid.Uint64().Draw(t, "seed"), rapid.IntRange(0, 1000).Draw(t, "query")
		got := Foreign(nil, seed, query, owner, n, k)
		if len(got) != min(k, n-1) || !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
			t.Fatalf("%v is not %d distinct sorted contexts", got, min(k, n-1))
		}
		if slices.Contains(got, int32(owner)) || len(got) > 0 && (got[0] < 0 || int(got[len(got)-1]) >= n) {
			t.Fatalf("%v holds the owner %d or leaves [0, %d)", got, owner, n)
		}
		if !slices.Equal(got, Foreign(make([]int32, 3), seed, query, owner, n, k)) {
			t.Fatal("the draw is not a function of its arguments")
		}
	})
}

// TestForeignIsUniform: 20,000 draws of 3 out of 9 contain each context about 6,667 times; six standard deviations are
// 400.
func TestForeignIsUniform(t *testing.T) {
	var count [10]int
	for q := range 20_000 {
		for _, c := range Foreign(nil, 5, q, 4, 10, 3) {
			count[c]++
		}
	}
	for c, n := range count {
		if c != 4 && (n < 6667-400 || n > 6667+400) {
			t.Errorf("context %d drawn %d times", c, n)
		}
	}
	if slices.Equal(Foreign(nil, 1, 0, 0, 1000, 9), Foreign(nil, 2, 0, 0, 1000, 9)) {
		t.Error("the seed does not matter")
	}
}

func TestTopKOrder(t *testing.T) {
	c := [][]float32{{1, 0}, {2, 0}, {0, 1}, {1, 0}, {-1, 0}}
	q := []float32{1, 0}
	if got := TopK(kernels.IP, q, c, nil, 3); !slices.Equal(got, []Hit{{1, 2}, {0, 1}, {3, 1}}) {
		t.Errorf("ip: %v", got)
	}
	if got := TopK(kernels.L2, q, c, map[int]float64{1: .5},
		9); !slices.Equal(got[:3], []Hit{{0, 0}, {3, 0}, {1, .5}}) || len(got) != 5 {
		t.Errorf("l2: %v", got)
	}
	if w, ok := AnyAbove(kernels.IP, q, c, nil, 1); !ok || w != (Hit{1, 2}) {
		t.Errorf("above 1: %v %v", w, ok)
	}
	if _, ok := AnyAbove(kernels.IP, q, c, nil, 2); ok {
		t.Error("2 is not above 2")
	}
}

func TestBin(t *testing.T) {
	for _, c := range []struct {
		x, low, high float64
		bins, want   int
	}{{0, 0, 1, 4, 0}, {1, 0, 1, 4, 3}, {.25, 0, 1, 4, 1}, {.2499, 0, 1, 4, 0}, {5, 5, 5, 3, 0}} {
		if got := Bin(c.x, c.low, c.high, c.bins); got != c.want {
			t.Errorf("Bin(%v) = %d, want %d", c, got, c.want)
		}
	}
}
