package tiles_test

import (
	"errors"
	"fmt"
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

var dtypes = []kernels.DType{kernels.F32, kernels.BF16x3, kernels.BF16, kernels.I8, kernels.I16}

// packAs packs r for one side, with one power of two for all metrics but cosine.
func packAs(t testing.TB, k Kernels, side Side, dtype kernels.DType, m kernels.Metric, r Rows, order []int32,
	scale float64) *Panels {
	t.Helper()
	n := r.N
	if order != nil {
		n = len(order)
	}
	p, err := NewPanels(k, side, dtype, m, n, r.Dim, scale)
	if err != nil {
		t.Fatal(err)
	}
	half := p.Count() / 2
	for _, part := range [][2]int{{half, p.Count()}, {0, half}} {
		s, err := Pack(k, p, r, order, part[0], part[1])
		if err != nil {
			t.Fatal(err)
		}
		p.Merge(s)
	}
	return p
}

func scaleOf(m kernels.Metric, sets ...Rows) float64 {
	largest := 0.
	for _, r := range sets {
		for _, n := range r.Norms {
			largest = max(largest, n)
		}
	}
	if m == kernels.Cosine || largest == 0 {
		return 1
	}
	_, e := math.Frexp(largest)
	return math.Ldexp(1, -e)
}

// forEachTile runs a test for every instruction set and type that has tiles on this machine.
func forEachTile(t *testing.T, test func(t *testing.T, k Kernels, dtype kernels.DType)) {
	cputest.ForEachISA(t, func(t *testing.T, k Kernels) {
		for _, dtype := range dtypes {
			if Has(k, dtype) {
				t.Run(dtype.String(), func(t *testing.T) { test(t, k, dtype) })
			}
		}
	})
}

// TestTilesWithinBound checks that every tile kernel stays within its bound of the canonical score, on rows that
// cancel, vary widely, repeat or are zero, and writes nothing outside its output.
func TestTilesWithinBound(t *testing.T) {
	forEachTile(t, func(t *testing.T, k Kernels, dtype kernels.DType) {
		rng := rand.New(rand.NewPCG(21, 4))
		worst := 0.
		for _, shape := range [][3]int{{1, 1, 1}, {31, 33, 7}, {32, 32, 8}, {33, 31, 9}, {65, 70, 33}, {40, 97, 130},
			{64, 64, 384}, {5, 200, 63}} {
			for _, m := range cputest.Metrics {
				a := cputest.WithNorms(cputest.Guarded(rng, shape[0], shape[2], shape[2]+1))
				b := cputest.WithNorms(cputest.Guarded(rng, shape[1], shape[2], shape[2]))
				copy(b.Row(0), a.Row(0)) // a distance of 0, a cosine of 1
				b.Norms = nil
				b = cputest.WithNorms(b)
				worst = max(worst, checkTiles(t, k, dtype, m, a, b))
			}
		}
		t.Logf("max |err|/bound %.3f", worst)
	})
}

func checkTiles(t *testing.T, k Kernels, dtype kernels.DType, m kernels.Metric, a, b Rows) float64 {
	t.Helper()
	sa, sb := scaleOf(m, a), scaleOf(m, b)
	if m == kernels.L2 {
		sa, sb = scaleOf(m, a, b), scaleOf(m, a, b)
	}
	left, right := packAs(t, k, Left, dtype, m, a, nil, sa), packAs(t, k, Right, dtype, m, b, nil, sb)
	const guard = 77
	stride := b.N + 3
	out := make([]float32, a.N*stride+5)
	for i := range out {
		out[i] = guard
	}
	if err := Matrix(k, out[:(a.N-1)*stride+b.N], stride, left, 0, left.Count(), right, 0, right.Count()); err != nil {
		t.Fatal(err)
	}
	epsilon, worst := Bound(left, right), 0.
	for i, v := range out {
		if i >= a.N*stride || i%stride >= b.N {
			if v != guard {
				t.Fatalf("%s %s %d×%d×%d: wrote %v behind row %d", dtype, m, a.N, b.N, a.Dim, v, i/stride)
			}
			continue
		}
		got, want := float64(v), ref.Score(m, a.Row(i/stride), b.Row(i%stride))
		switch m {
		case kernels.IP:
			if math.IsInf(got, 0) && math.Abs(want)+epsilon/sa/sb > math.MaxFloat32 {
				continue
			}
			got, want = got*sa*sb, want*sa*sb
		case kernels.L2:
			if math.IsInf(got, 0) && want > math.MaxFloat32 {
				continue
			}
			got, want = -got*got/2*sa*sa, -want*want/2*sa*sa
		}
		err := math.Abs(got-want) - math.Abs(got)*0x1p-22 // the root and the square of the test itself
		worst = max(worst, err/epsilon)
		if !(err <= epsilon) {
			t.Fatalf("%s %s %d×%d×%d (%d, %d): %v, canonical %v, bound %v", dtype, m, a.N, b.N, a.Dim, i/stride,
				i%stride, got, want, epsilon)
		}
	}
	return worst
}

// TestCountEqualsGo compares a count with that of plain Go on the values that Matrix writes, for any range of panels.
func TestCountEqualsGo(t *testing.T) {
	forEachTile(t, func(t *testing.T, k Kernels, dtype kernels.DType) {
		rng := rand.New(rand.NewPCG(22, 4))
		for round, shape := range [][3]int{{1, 1, 3}, {33, 31, 9}, {64, 64, 40}, {200, 130, 65}, {70, 300, 384}} {
			for _, groups := range []int32{0, 3, 40} {
				a, b := cputest.RandomRows(rng, shape[0], shape[2]), cputest.RandomRows(rng, shape[1], shape[2])
				left, right := packAs(t, k, Left, dtype, kernels.Cosine, a, nil, 1),
					packAs(t, k, Right, dtype, kernels.Cosine, b, nil, 1)
				values := make([]float32, a.N*b.N)
				if err := Matrix(k, values, b.N, left, 0, left.Count(), right, 0, right.Count()); err != nil {
					t.Fatal(err)
				}
				brackets := []int{0, 1, 5, 9}[(round+int(groups))%4]
				got, want := newCount(rng, a.N, b.N, groups, brackets), Count{}
				want = clone(got)
				r0, r1, l0, l1 := rng.IntN(left.Count()), left.Count(), rng.IntN(right.Count()), right.Count()
				if err := got.Add(k, left, r0, r1, right, l0, l1); err != nil {
					t.Fatal(err)
				}
				sum, sum2 := 0., 0.
				for l := l0 * Panel; l < b.N; l++ {
					for r := r0 * Panel; r < a.N; r++ {
						if v := values[r*b.N+l]; want.Pair(v, v, r, l, r0*Panel, l0*Panel) {
							sum, sum2 = sum+float64(v), sum2+float64(v)*float64(v)
						}
					}
				}
				name := fmt.Sprintf("%v groups %d brackets %d", shape, groups, brackets)
				sameCount(t, name, got, want)
				for _, s := range [][2]float64{{got.Sum.Float64(), sum}, {got.Sum2.Float64(), sum2}} {
					if math.Abs(s[0]-s[1]) > 1e-6*float64(want.Counted)+1e-6 {
						t.Errorf("%s: sum %v, want %v", name, s[0], s[1])
					}
				}
			}
		}
	})
}

// TestCountAtBoundaries checks that values equal to an end of a bracket, the minimum, the maximum or 0 are counted as
// in plain Go, with and without capacity for kept values.
func TestCountAtBoundaries(t *testing.T) {
	forEachTile(t, func(t *testing.T, k Kernels, dtype kernels.DType) {
		rng := rand.New(rand.NewPCG(26, 4))
		small := func(n int) Rows {
			r := Rows{Data: make([]float32, n*5), N: n, Dim: 5, Stride: 5}
			for i := range r.Data {
				r.Data[i] = float32(rng.IntN(7)-3) / 8
			}
			return cputest.WithNorms(r)
		}
		a, b := small(96), small(64)
		left, right := packAs(t, k, Left, dtype, kernels.IP, a, nil, 1),
			packAs(t, k, Right, dtype, kernels.IP, b, nil, 1)
		values := make([]float32, a.N*b.N)
		if err := Matrix(k, values, b.N, left, 0, left.Count(), right, 0, right.Count()); err != nil {
			t.Fatal(err)
		}
		for round := range 20 {
			got := newCount(rng, a.N, b.N, 0, 0)
			got.NoBest, got.Margin = round%2 == 1, 1./64
			// Of products, which the wider formats hold exactly; limits are also far above and below most values.
			unit := []float32{1. / 64, 1. / (1 << 18), 4}[round/4%3]
			got.Min, got.Max = float32(-20-round)*unit, float32(20+round)*unit
			for b := range []int{1, 5, 6, 12}[round%4] {
				low := float32(3*b-round%14) * unit
				if low == 0 && round%3 == 0 {
					low = float32(math.Copysign(0, -1))
				}
				got.Low, got.High = append(got.Low, low), append(got.High, low+float32(round%3)*unit)
			}
			got.Below = make([]int64, len(got.Low))
			for i := range got.Own {
				got.Own[i] = -1 // whole tiles only
			}
			want, bare := clone(got), clone(got)
			bare.Kept = nil
			for _, c := range []*Count{&got, &bare} {
				if err := c.Add(k, left, 0, left.Count(), right, 0, right.Count()); err != nil {
					t.Fatal(err)
				}
			}
			for l := range b.N {
				for r := range a.N {
					want.Pair(values[r*b.N+l], values[r*b.N+l], r, l, 0, 0)
				}
			}
			name := fmt.Sprintf("round %d", round)
			sameCount(t, name, got, want)
			bare.Kept, bare.KeptFull = got.Kept, false
			sameCount(t, name+" without room", bare, want)
		}
	})
}

func newCount(rng *rand.Rand, rows, columns int, groups int32, brackets int) Count {
	inf := float32(math.Inf(1))
	c := Count{Min: -.3, Max: .4, Margin: .02, Own: make([]int32, columns), CrossGroup: rng.IntN(2) == 0,
		NoBest: rng.IntN(3) == 0,
		BinLow: -1, BinScale: 50, Bins: make([]int64, 100), Below: make([]int64, brackets)}
	for l := range c.Own {
		c.Own[l] = rng.Int32N(int32(rows))
		if rng.IntN(5) == 0 {
			c.Own[l] = -1
		}
	}
	if groups > 0 {
		c.RowGroup, c.ColumnGroup = make([]int32, rows), make([]int32, columns)
		for i := range c.RowGroup {
			c.RowGroup[i] = rng.Int32N(groups)
		}
		slices.Sort(c.RowGroup) // as the engine orders them
		for i := range c.ColumnGroup {
			c.ColumnGroup[i] = rng.Int32N(groups)
		}
	}
	for b := range brackets {
		low := -.2 + .4*float32(b)/float32(brackets)
		c.Low, c.High = append(c.Low, low), append(c.High, low+.02)
	}
	room := rows*columns + 2*Panel*Panel
	c.Kept, c.Other, c.All = make([]Entry, 0, room), make([]Entry, 0, room), make([]Entry, 0, room)
	for range ceilPanel(columns) {
		c.BestOther, c.BestAll = append(c.BestOther, -inf), append(c.BestAll, -inf)
	}
	return c
}

func ceilPanel(n int) int { return (n + Panel - 1) / Panel * Panel }

func clone(c Count) Count {
	for _, s := range []*[]Entry{&c.Kept, &c.Other, &c.All} {
		*s = make([]Entry, 0, cap(*s))
	}
	c.Bins, c.Below = slices.Clone(c.Bins), slices.Clone(c.Below)
	c.BestOther, c.BestAll = slices.Clone(c.BestOther), slices.Clone(c.BestAll)
	return c
}

// sameCount compares the results that do not depend on the order of pairs: candidates are compared after the last
// filter.
func sameCount(t *testing.T, name string, got, want Count) {
	t.Helper()
	if got.Counted != want.Counted || !slices.Equal(got.Below, want.Below) || !slices.Equal(got.Bins, want.Bins) {
		t.Fatalf("%s: counted %d below %v, want %d %v; bins %v, want %v", name, got.Counted, got.Below, want.Counted,
			want.Below, got.Bins, want.Bins)
	}
	if got.KeptFull || got.OtherFull || got.AllFull {
		t.Fatalf("%s: no room", name)
	}
	byPlace := func(a, b Entry) int { return int(int64(a.At) - int64(b.At)) }
	slices.SortFunc(got.Kept, byPlace)
	slices.SortFunc(want.Kept, byPlace)
	if !slices.Equal(got.Kept, want.Kept) {
		t.Fatalf("%s: kept %d, want %d", name, len(got.Kept), len(want.Kept))
	}
	if !slices.Equal(got.BestOther, want.BestOther) {
		t.Fatalf("%s: best other %v, want %v", name, got.BestOther, want.BestOther)
	}
	final := func(list []Entry, best []float32) (kept []Entry) {
		for _, e := range list {
			if e.Value >= best[e.At&0xffff]-got.Margin {
				kept = append(kept, e)
			}
		}
		slices.SortFunc(kept, byPlace)
		return kept
	}
	if !slices.Equal(final(got.Other, got.BestOther), final(want.Other, want.BestOther)) {
		t.Fatalf("%s: candidates of other groups differ", name)
	}
	for l, best := range want.BestAll { // C also looks at pairs that are not near
		if got.BestAll[l] < best {
			t.Fatalf("%s: best near of column %d is %v, want at least %v", name, l, got.BestAll[l], best)
		}
		both := max(best, want.BestOther[l])
		if max(got.BestAll[l], got.BestOther[l]) != both {
			t.Fatalf("%s: best of column %d: %v and %v, want %v", name, l, got.BestAll[l], got.BestOther[l], both)
		}
	}
}

// TestCountWithoutRoom checks that a full list is reported and the counts stay correct.
func TestCountWithoutRoom(t *testing.T) {
	forEachTile(t, func(t *testing.T, k Kernels, dtype kernels.DType) {
		rng := rand.New(rand.NewPCG(23, 4))
		a, b := cputest.RandomRows(rng, 100, 64), cputest.RandomRows(rng, 100, 64)
		left, right := packAs(t, k, Left, dtype, kernels.Cosine, a, nil, 1),
			packAs(t, k, Right, dtype, kernels.Cosine, b, nil, 1)
		roomy := newCount(rng, a.N, b.N, 0, 3)
		tight := clone(roomy)
		tight.Kept, tight.Other, tight.All = make([]Entry, 0, 40), make([]Entry, 0, 40), make([]Entry, 0, 1)
		unwanted := clone(roomy)
		unwanted.Kept = nil
		for _, c := range []*Count{&roomy, &tight, &unwanted} {
			if err := c.Add(k, left, 0, left.Count(), right, 0, right.Count()); err != nil {
				t.Fatal(err)
			}
		}
		if unwanted.KeptFull || len(unwanted.Kept) > 0 {
			t.Error("entries are kept where none are wanted")
		}
		if !tight.KeptFull || !tight.OtherFull || !tight.AllFull {
			t.Errorf("full: %v %v %v", tight.KeptFull, tight.OtherFull, tight.AllFull)
		}
		if tight.Counted != roomy.Counted || !slices.Equal(tight.Below, roomy.Below) || tight.Sum != roomy.Sum ||
			tight.Sum2 != roomy.Sum2 {
			t.Errorf("counts differ: %d %v, with room %d %v", tight.Counted, tight.Below, roomy.Counted, roomy.Below)
		}
	})
}

// TestCountsAdd checks that sums and counts of parts divided at panels add up exactly to those of the whole.
func TestCountsAdd(t *testing.T) {
	forEachTile(t, func(t *testing.T, k Kernels, dtype kernels.DType) {
		rng := rand.New(rand.NewPCG(24, 4))
		a, b := cputest.RandomRows(rng, 150, 48), cputest.RandomRows(rng, 120, 48)
		left, right := packAs(t, k, Left, dtype, kernels.Cosine, a, nil, 1),
			packAs(t, k, Right, dtype, kernels.Cosine, b, nil, 1)
		whole := newCount(rng, a.N, b.N, 4, 5)
		parts := clone(whole)
		if err := whole.Add(k, left, 0, left.Count(), right, 0, right.Count()); err != nil {
			t.Fatal(err)
		}
		kept := 0
		for r := range left.Count() {
			for l := range right.Count() {
				best := parts
				best.BestOther, best.BestAll = parts.BestOther[l*Panel:], parts.BestAll[l*Panel:]
				if err := best.Add(k, left, r, r+1, right, l, l+1); err != nil {
					t.Fatal(err)
				}
				kept += len(best.Kept)
				parts.Counted, parts.Sum, parts.Sum2 = best.Counted, best.Sum, best.Sum2
			}
		}
		if parts.Counted != whole.Counted || parts.Sum != whole.Sum || parts.Sum2 != whole.Sum2 ||
			kept != len(whole.Kept) ||
			!slices.Equal(parts.Below, whole.Below) || !slices.Equal(parts.Bins, whole.Bins) ||
			!slices.Equal(parts.BestOther, whole.BestOther) {
			t.Errorf("parts: %d, %v, %v; whole %d, %v, %v", parts.Counted, parts.Sum, parts.Sum2, whole.Counted,
				whole.Sum, whole.Sum2)
		}
	})
}

func BenchmarkTiles(b *testing.B) {
	rng := rand.New(rand.NewPCG(25, 4))
	x, y := cputest.RandomRows(rng, 1024, 384), cputest.RandomRows(rng, 2048, 384)
	for _, isa := range Available() {
		for _, dtype := range dtypes {
			k := cputest.KernelsOf(isa)
			if isa == Go || !Has(k, dtype) {
				continue
			}
			left, right := packAs(b, k, Left, dtype, kernels.Cosine, x, nil, 1),
				packAs(b, k, Right, dtype, kernels.Cosine, y, nil, 1)
			pairs := float64(x.N * y.N)
			for _, brackets := range []int{0, 5} {
				c := newCount(rng, x.N, y.N, 0, brackets)
				c.Bins, c.Min, c.Max = nil, -.25, .25
				slices.Sort(c.Own)     // as the engine orders them: few tiles hold own pairs
				for i := range c.Low { // two per mille of the pairs in brackets
					c.High[i] = c.Low[i] + .0001
				}
				b.Run(fmt.Sprintf("count%d/%s/%s", brackets, isa, dtype), func(b *testing.B) {
					for b.Loop() {
						c.Kept, c.Other, c.All = c.Kept[:0], c.Other[:0], c.All[:0]
						if err := c.Add(k, left, 0, left.Count(), right, 0, right.Count()); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(pairs*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mpairs/s")
					b.ReportMetric(2*384*pairs*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
				})
			}
			out := make([]float32, x.N*y.N)
			b.Run(fmt.Sprintf("matrix/%s/%s", isa, dtype), func(b *testing.B) {
				for b.Loop() {
					if err := Matrix(k, out, y.N, left, 0, left.Count(), right, 0, right.Count()); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(2*384*pairs*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
			b.Run(fmt.Sprintf("pack/%s/%s", isa, dtype), func(b *testing.B) {
				for b.Loop() {
					if _, err := Pack(k, right, y, nil, 0, right.Count()); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(len(y.Data)*b.N)/b.Elapsed().Seconds()/1e9, "Gelements/s")
			})
		}
	}
}

// TestShort: layouts of bfloat16 parts report vectors that are short, but not 0.
func TestShort(t *testing.T) {
	forEachTile(t, func(t *testing.T, k Kernels, dtype kernels.DType) {
		for _, x := range []float64{0, 0x1p-44, 0x1p-46, 0x1p-80, 0x1p-140} {
			r := cputest.WithNorms(Rows{Data: make([]float32, 40*33), N: 40, Dim: 33, Stride: 33})
			r.Data[0], r.Data[37*33+32] = 1, float32(-x)
			p := packAs(t, k, Left, dtype, kernels.IP, r, nil, 1)
			parts := dtype == kernels.BF16x3 || dtype == kernels.BF16 || k.ISA() == AMX && dtype == kernels.F32
			if want := parts && x > 0 && x < 0x1p-45; p.Short() != want {
				t.Errorf("%v: short %v", x, p.Short())
			}
		}
	})
}

// TestPanelsOfAnotherISA: layouts differ between instruction sets, so each rejects the panels of the others.
func TestPanelsOfAnotherISA(t *testing.T) {
	if len(Available()) < 2 {
		t.Skip("one instruction set")
	}
	var sides []*Panels
	var all []Kernels
	for _, isa := range Available()[:2] {
		k, err := Open(isa.String())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, k)
		for _, side := range []Side{Left, Right} {
			sides = append(sides,
				packAs(t, k, side, kernels.F32, kernels.IP, Rows{Data: make([]float32, 8), N: 2, Dim: 4, Stride: 4},
					nil, 1))
		}
	}
	var out [4]float32
	if err := Matrix(all[0], out[:], 2, sides[0], 0, 1, sides[3], 0, 1); !errors.Is(err, kernels.ErrISA) {
		t.Error(err)
	}
	if err := Matrix(all[1], out[:], 2, sides[0], 0, 1, sides[1], 0, 1); !errors.Is(err, kernels.ErrISA) {
		t.Error(err)
	}
	if _, err := Pack(all[1], sides[0], Rows{Data: make([]float32, 8), N: 2, Dim: 4, Stride: 4}, nil, 0,
		1); !errors.Is(err, kernels.ErrISA) {
		t.Error(err)
	}
}
