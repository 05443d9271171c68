package engine

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
)

func randomBias(rng *rand.Rand, n int) Biases {
	var list BiasList
	for row := range n {
		if rng.IntN(3) == 0 {
			list = append(list, Bias{Row: row, Value: float64(rng.IntN(4)) / 4})
		}
	}
	if rng.IntN(2) == 0 {
		return computed{list}
	}
	return list
}

// TestOpsEqualReference: every operation × metric × instruction set, tiling and thread count × shape.
func TestOpsEqualReference(t *testing.T) {
	rng, all := rand.New(rand.NewPCG(11, 1)), engines(t)
	for _, dim := range []int{1, 7, 8, 9, 31, 32, 33} {
		for _, count := range [][2]int{{0, 0}, {0, 4}, {4, 0}, {1, 1}, {1, 40}, {40, 1}, {13, 29}} {
			a, b := vectors(rng, count[0], dim, dim+rng.IntN(3)), vectors(rng, count[1], dim, dim+rng.IntN(3))
			for _, metric := range metrics {
				bias := make([]Biases, a.Rows)
				for i := range bias {
					bias[i] = randomBias(rng, b.Rows)
				}
				k := 1 + rng.IntN(12)
				for name, e := range all {
					t.Logf("%s %v dim %d %v k %d", name, metric, dim, count, k)
					checkMatrix(t, e, a, b, metric)
					checkMatrix(t, e, a, a, metric)
					checkTopK(t, e, a, b, metric, k, nil)
					checkTopK(t, e, a, b, metric, k, bias)
					for i, q := range rows(a) {
						checkDecision(t, e, q, b, metric, bias[i])
					}
					if t.Failed() {
						return
					}
				}
			}
		}
	}
}

func checkMatrix(t *testing.T, e *Engine, a, b Vectors, metric kernels.Metric) {
	t.Helper()
	out := make([]float32, a.Rows*b.Rows+1)
	out[len(out)-1] = -77
	if err := e.Matrix(context.Background(), out[:len(out)-1], a, b, metric); err != nil {
		t.Fatal(err)
	}
	for i, row := range ref.Matrix(metric, rows(a), rows(b)) {
		for j, want := range row {
			if got := out[i*b.Rows+j]; got != float32(want) {
				t.Fatalf("S[%d][%d] = %v, want %v", i, j, got, want)
			}
		}
	}
	if out[len(out)-1] != -77 {
		t.Fatal("wrote behind the matrix")
	}
}

func checkTopK(t *testing.T, e *Engine, q, c Vectors, metric kernels.Metric, k int, bias []Biases) {
	t.Helper()
	got, err := e.TopK(context.Background(), q, c, metric, k, bias)
	if err != nil || len(got) != q.Rows {
		t.Fatalf("%d lists, %v", len(got), err)
	}
	for i, x := range rows(q) {
		var list Biases
		if bias != nil {
			list = bias[i]
		}
		want := refHits(ref.TopK(metric, x, rows(c), biasMap(list), k))
		if diff := difference(want, got[i]); diff != "" {
			t.Fatalf("query %d (-ref +got):\n%s", i, diff)
		}
	}
}

// checkDecision compares Max, and AnyAbove at the boundary: at the canonical maximum the gate is
// closed, at the next float64 it is open, with a witness that is the lowest row at the maximum.
func checkDecision(t *testing.T, e *Engine, q []float32, c Vectors, metric kernels.Metric, bias Biases) {
	t.Helper()
	ctx := context.Background()
	want, wantOK := ref.Max(metric, q, rows(c), biasMap(bias))
	best, ok, err := e.Max(ctx, q, c, metric, bias)
	if err != nil || ok != wantOK || ok && best != Hit(want) {
		t.Fatalf("Max = %v %v %v, want %v %v", best, ok, err, want, wantOK)
	}
	if !ok {
		if w, above, err := e.AnyAbove(ctx, q, c, metric, bias, 0); above || err != nil || w.Row != -1 {
			t.Fatalf("AnyAbove of nothing = %v %v %v", w, above, err)
		}
		return
	}
	if w, above, err := e.AnyAbove(ctx, q, c, metric, bias, best.Score); above || err != nil {
		t.Fatalf("tau = maximum %v: open, %v, %v", best, w, err)
	}
	below := math.Nextafter(best.Score, metric.Worst())
	if w, above, err := e.AnyAbove(ctx, q, c, metric, bias, below); !above || err != nil || w != best {
		t.Fatalf("tau below the maximum %v: %v %v %v", best, w, above, err)
	}
	loose := metric.Biased(best.Score, -.3)
	first, any := ref.AnyAbove(metric, q, rows(c), biasMap(bias), loose)
	if w, above, err := e.AnyAbove(ctx, q, c, metric, bias, loose); above != any || err != nil || any &&
		w != Hit(first) {
		t.Fatalf("tau %v: %v %v %v, want %v %v", loose, w, above, err, first, any)
	}
}

// TestBoundaryDecisions: 2,000 queries, duplicates among contexts and queries equal to contexts included.
func TestBoundaryDecisions(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 1))
	e := newEngine(t, Options{})
	c := plain(rng, 150, 24)
	for i := range 2000 {
		q := plain(rng, 1, 24).Data
		if i%3 == 0 {
			q = rows(c)[rng.IntN(c.Rows)]
		}
		var bias Biases
		if i%2 == 0 {
			bias = randomBias(rng, c.Rows)
		}
		checkDecision(t, e, q, c, metrics[i%3], bias)
	}
}

// TestManyRows crosses 65,536 rows, many tiles and several tasks, against a plain scan of Matrix.
func TestManyRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 1))
	e, c, q := newEngine(t, Options{}), plain(rng, 70_001, 64), plain(rng, 3, 64)
	scores := make([]float32, q.Rows*c.Rows)
	if err := e.Matrix(context.Background(), scores, q, c, kernels.IP); err != nil {
		t.Fatal(err)
	}
	hits, err := e.TopK(context.Background(), q, c, kernels.IP, 70_001, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, list := range hits {
		seen := make([]bool, c.Rows)
		for j, h := range list {
			if seen[h.Row] || float32(h.Score) != scores[i*c.Rows+h.Row] {
				t.Fatalf("query %d: hit %v twice or not as in the matrix", i, h)
			}
			seen[h.Row] = true
			if j > 0 && !kernels.IP.Closer(list[j-1], h) {
				t.Fatalf("query %d: %v before %v", i, list[j-1], h)
			}
		}
		if len(list) != c.Rows {
			t.Fatalf("query %d: %d hits of %d", i, len(list), c.Rows)
		}
		best, _, err := e.Max(context.Background(), rows(q)[i], c, kernels.IP, nil)
		if err != nil || best != list[0] {
			t.Fatalf("Max %v, TopK %v, %v", best, list[0], err)
		}
	}
}

// TestProperties: matrix[i][j] = pair(i, j); tiles = whole; parallel = serial.
func TestProperties(t *testing.T) {
	budget := newEngine(t, Options{}).r.Pool.Budget
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		dim := rapid.IntRange(1, 40).Draw(t, "dim")
		a := vectors(rng, rapid.IntRange(1, 30).Draw(t, "rows a"), dim, dim+rapid.IntRange(0, 3).Draw(t, "gap a"))
		b := vectors(rng, rapid.IntRange(1, 30).Draw(t, "rows b"), dim, dim+rapid.IntRange(0, 3).Draw(t, "gap b"))
		metric := rapid.SampledFrom(metrics).Draw(t, "metric")
		whole, err := open(Options{Cores: budget, Threads: 1, TileRows: 1000})
		if err != nil {
			t.Fatal(err)
		}
		tiled, err := open(Options{Cores: budget, Threads: 4, TileRows: rapid.IntRange(1, 9).Draw(t, "tile")})
		if err != nil {
			t.Fatal(err)
		}
		one, two := make([]float32, a.Rows*b.Rows), make([]float32, a.Rows*b.Rows)
		if err := whole.Matrix(context.Background(), one, a, b, metric); err != nil {
			t.Fatal(err)
		}
		if err := tiled.Matrix(context.Background(), two, a, b, metric); err != nil {
			t.Fatal(err)
		}
		if diff := difference(one, two); diff != "" {
			t.Fatalf("tiles differ from the whole:\n%s", diff)
		}
		i, j := rapid.IntRange(0, a.Rows-1).Draw(t, "i"), rapid.IntRange(0, b.Rows-1).Draw(t, "j")
		if pair := float32(ref.Score(metric, rows(a)[i], rows(b)[j])); one[i*b.Rows+j] != pair {
			t.Fatalf("S[%d][%d] = %v, the pair has %v", i, j, one[i*b.Rows+j], pair)
		}
	})
}
