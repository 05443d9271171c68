package tiles_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/kernels"
	. "github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/cputest"
	. "github.com/sluice-rag/sluice/kernels/cpu/tiles"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// TestGoTilesWithinBound: the plain Go tiles stay within the bound of canonical scores on nasty rows.
func TestGoTilesWithinBound(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 2))
	worst := 0.
	for _, dim := range []int{1, 7, 8, 9, 33, 130, 384} {
		for _, m := range cputest.Metrics {
			a := cputest.WithNorms(cputest.Guarded(rng, 37, dim, dim+1))
			b := cputest.WithNorms(cputest.Guarded(rng, 34, dim, dim))
			left, right := packed(t, cputest.PlainGo, Left, m, a), packed(t, cputest.PlainGo, Right, m, b)
			if m == kernels.L2 { // one scale for both
				s := min(left.Scale, right.Scale)
				left = packedWith(t, cputest.PlainGo, Left, m, a, s)
				right = packedWith(t, cputest.PlainGo, Right, m, b, s)
			}
			epsilon := Bound(left, right)
			values := values(t, left, right)
			for i := range a.N {
				for j := range b.N {
					got := float64(values[i][j])
					want := ref.Score(m, a.Row(i), b.Row(j))
					switch m {
					case kernels.IP:
						want *= left.Scale * right.Scale
					case kernels.L2:
						want *= left.Scale
						want *= -want / 2
					}
					worst = max(worst, math.Abs(got-want)/epsilon)
					if !(math.Abs(got-want) <= epsilon) {
						t.Fatalf("%s dim %d (%d, %d): %v, canonical %v, bound %v", m, dim, i, j, got, want, epsilon)
					}
				}
			}
		}
	}
	t.Logf("max |err|/bound %.3f", worst)
}

// values returns the values of all pairs as a count sees them, [row][column], with a count that keeps all of them.
func values(t *testing.T, rows, columns *Panels) [][]float32 {
	t.Helper()
	c := Count{Min: float32(math.Inf(1)), NoBest: true, Own: slices.Repeat([]int32{-1}, columns.N),
		Kept: make([]Entry, 0, rows.N*columns.N)}
	cputest.Must(0, c.Add(cputest.PlainGo, rows, 0, rows.Count(), columns, 0, columns.Count()))
	all := make([][]float32, rows.N)
	for i := range all {
		all[i] = make([]float32, columns.N)
	}
	if len(c.Kept) != rows.N*columns.N {
		t.Fatalf("%d values of %d×%d", len(c.Kept), rows.N, columns.N)
	}
	for _, e := range c.Kept {
		all[e.At>>16][e.At&0xffff] = e.Value
	}
	return all
}

func packed(t *testing.T, k Kernels, side Side, m kernels.Metric, r Rows) *Panels {
	scale, largest := 1., 0.
	for _, n := range r.Norms {
		largest = max(largest, n)
	}
	if m != kernels.Cosine && largest > 0 {
		_, e := math.Frexp(largest)
		scale = math.Ldexp(1, -e)
	}
	return packedWith(t, k, side, m, r, scale)
}

func packedWith(t *testing.T, k Kernels, side Side, m kernels.Metric, r Rows, scale float64) *Panels {
	t.Helper()
	p, err := NewPanels(k, side, kernels.F32, m, r.N, r.Dim, scale)
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.Count() {
		s, err := Pack(k, p, r, nil, i, i+1)
		if err != nil {
			t.Fatal(err)
		}
		p.Merge(s)
	}
	return p
}

// TestGoCount compares with a simple count of the same tiles.
func TestGoCount(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 2))
	a, b := cputest.WithNorms(cputest.Guarded(rng, 70, 20, 20)), cputest.WithNorms(cputest.Guarded(rng, 45, 20, 20))
	rows := packed(t, cputest.PlainGo, Left, kernels.Cosine, a)
	columns := packed(t, cputest.PlainGo, Right, kernels.Cosine, b)
	c := Count{Low: []float32{-.1, .2}, High: []float32{0, .25}, Below: make([]int64, 2), Min: -.6, Max: .7,
		Margin: .01,
		Own:    make([]int32, b.N), RowGroup: make([]int32, a.N), ColumnGroup: make([]int32, b.N), CrossGroup: true,
		BinLow: -1, BinScale: 5, Bins: make([]int64, 10), Kept: make([]Entry, 0, 3150), Other: make([]Entry, 0, 3150),
		All:       make([]Entry, 0, 3150),
		BestOther: make([]float32, 64), BestAll: make([]float32, 64)}
	for i := range c.RowGroup {
		c.RowGroup[i] = rng.Int32N(5)
	}
	for l := range b.N {
		c.Own[l], c.ColumnGroup[l] = rng.Int32N(70), rng.Int32N(5)
	}
	for l := range c.BestOther {
		c.BestOther[l], c.BestAll[l] = float32(math.Inf(-1)), float32(math.Inf(-1))
	}
	if err := c.Add(cputest.PlainGo, rows, 0, 3, columns, 0, 2); err != nil {
		t.Fatal(err)
	}
	var counted, below, kept, bins int64
	var sum float64
	values := values(t, rows, columns)
	for l := range b.N {
		best := [2]float32{float32(math.Inf(-1)), float32(math.Inf(-1))}
		for i := range a.N {
			x := values[i][l]
			if c.RowGroup[i] == c.ColumnGroup[l] || int(c.Own[l]) == i {
				best[1] = max(best[1], x)
				continue
			}
			best[0] = max(best[0], x)
			counted, sum = counted+1, sum+float64(x)
			if x < .2 {
				below++
			}
			if x <= -.6 || x >= .7 || x >= -.1 && x <= 0 || x >= .2 && x <= .25 {
				kept++
			}
		}
		if c.BestOther[l] != best[0] || c.BestAll[l] != best[1] {
			t.Errorf("column %d: best %v and %v, want %v", l, c.BestOther[l], c.BestAll[l], best)
		}
	}
	for _, n := range c.Bins {
		bins += n
	}
	if c.Counted != counted || c.Below[1] != below || int64(len(c.Kept)) != kept || bins != counted {
		t.Errorf("%d counted, %d below, %d kept, %d in bins; want %d, %d, %d", c.Counted, c.Below[1], len(c.Kept), bins,
			counted, below, kept)
	}
	if math.Abs(c.Sum.Float64()-sum) > 1e-4 {
		t.Errorf("sum %v, want %v", c.Sum.Float64(), sum)
	}
	c.Kept = make([]Entry, 0, 5)
	if err := c.Add(cputest.PlainGo, rows, 0, 3, columns, 0, 2); err != nil || !c.KeptFull || c.Counted != 2*counted {
		t.Errorf("no room: full %v, %d counted, %v", c.KeptFull, c.Counted, err)
	}
}

// TestSumsOfDistances checks that sums and bins of l2 use the scaled distance, on every instruction set.
func TestSumsOfDistances(t *testing.T) {
	cputest.ForEachISA(t, func(t *testing.T, k Kernels) {
		rng := rand.New(rand.NewPCG(13, 2))
		a, b := cputest.RandomRows(rng, 70, 20), cputest.RandomRows(rng, 45, 20)
		copy(b.Data[:20], a.Data[:20]) // a distance of 0
		s := packed(t, k, Left, kernels.L2, a).Scale / 4
		rows, columns := packedWith(t, k, Left, kernels.L2, a, s), packedWith(t, k, Right, kernels.L2, b, s)
		c := Count{Own: make([]int32, b.N), NoBest: true, BinScale: 8, Bins: make([]int64, 8)}
		var sum, sum2 float64
		for l := range c.Own {
			c.Own[l] = -1
		}
		if err := c.Add(k, rows, 0, rows.Count(), columns, 0, columns.Count()); err != nil {
			t.Fatal(err)
		}
		bins := make([]int64, 8)
		for i := range a.N {
			for j := range b.N {
				d := s * ref.Distance(a.Row(i), b.Row(j))
				sum, sum2 = sum+d, sum2+d*d
				bins[min(int(8*d), 7)]++
			}
		}
		if got, got2 := c.Sum.Float64(), c.Sum2.Float64(); math.Abs(got-sum) > 2e-3 || math.Abs(got2-sum2) > 2e-3 {
			t.Errorf("sums %v and %v, want %v and %v", got, got2, sum, sum2)
		}
		for i, n := range bins {
			if math.Abs(float64(c.Bins[i]-n)) > 2 {
				t.Errorf("bin %d holds %d, want %d", i, c.Bins[i], n)
			}
		}
	})
}
