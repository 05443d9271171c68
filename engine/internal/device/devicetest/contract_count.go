package devicetest

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu/tiles"
)

// checked is a pair of packed sets whose counts are verified.
type checked struct {
	*pair
	d           device.Device
	rows, lanes device.Set
	order       []int32 // of the lanes
	epsilon     float64
	values      []float32 // of all pairs, [row][lane]
}

// canonical returns the canonical score that a tile's value approximates.
func (c *checked) canonical(i, lane int) float64 {
	x := c.score(i, int(c.order[lane]))
	switch c.metric {
	case kernels.IP:
		return x * c.rows.Scale() * c.lanes.Scale()
	case kernels.L2:
		x *= c.rows.Scale()
		return -x * x / 2
	}
	return x
}

var infinity = float32(math.Inf(1))

// counting returns a Count that requests nothing but the counts.
func (c *checked) counting(room int) *device.Count {
	own := make([]int32, c.lanes.Len())
	for i := range own {
		own[i] = -1
	}
	width := c.lanes.Count() * device.Panel
	n := &device.Count{Min: -infinity, Max: infinity, Own: own, BestOther: make([]float32, width),
		BestAll: make([]float32, width),
		Kept:    make([]device.Entry, 0, room), Other: make([]device.Entry, 0, room),
		All: make([]device.Entry, 0, room)}
	for i := range width {
		n.BestOther[i], n.BestAll[i] = -infinity, -infinity
	}
	return n
}

// room returns the capacity for everything that a count may write and for the slack that the kernels require.
func (c *checked) room() int { return c.rows.Count()*c.lanes.Count()*device.Panel*device.Panel + 2048 }

func (c *checked) run(t *testing.T, n *device.Count) {
	t.Helper()
	if err := c.d.Count(n, c.rows, 0, c.rows.Count(), c.lanes, 0, c.lanes.Count()); err != nil {
		t.Fatal(err)
	}
}

// all keeps every pair and checks that each is present once and within the bound. Later counts are compared with its
// values.
func (c *checked) all(t *testing.T) {
	n := c.counting(c.room())
	n.Min, n.NoBest = infinity, true
	c.run(t, n)
	pairs := c.a.N * c.b.N
	if n.KeptFull || len(n.Kept) != pairs || n.Counted != int64(pairs) {
		t.Fatalf("%d of %d pairs kept, %d counted, full %v", len(n.Kept), pairs, n.Counted, n.KeptFull)
	}
	c.values = make([]float32, pairs)
	for i := range c.values {
		c.values[i] = float32(math.NaN())
	}
	worst := 0.
	for _, e := range n.Kept {
		row, lane := int(e.At>>16), int(e.At&0xffff)
		if row >= c.a.N || lane >= c.b.N || !math.IsNaN(float64(c.values[row*c.b.N+lane])) {
			t.Fatalf("pair %d, %d is kept twice, or is none", row, lane)
		}
		c.values[row*c.b.N+lane] = e.Value
		if off := math.Abs(float64(e.Value) - c.canonical(row, lane)); !(off <= c.epsilon) {
			t.Fatalf("value of %d, %d: %v, canonical %v, off by %.3g of the bound %v",
				row, lane, e.Value, c.canonical(row, lane), off/c.epsilon, c.epsilon)
		} else {
			worst = max(worst, off/c.epsilon)
		}
	}
	t.Logf("largest error over the bound: %.3g", worst)
	c.sums(t, n, func(int, int) bool { return true })
}

// sums checks the sums over the counted pairs.
func (c *checked) sums(t *testing.T, n *device.Count, counted func(row, lane int) bool) {
	t.Helper()
	var sum, sum2, size float64
	for i, v := range c.values {
		if !counted(i/c.b.N, i%c.b.N) {
			continue
		}
		x := float64(v)
		if c.metric == kernels.L2 {
			x = math.Sqrt(max(0, -2*x))
		}
		sum, sum2, size = sum+x, sum2+x*x, size+1+math.Abs(x)+x*x
	}
	if s := n.Sum.Float64(); !(math.Abs(s-sum) <= 1e-5*size) {
		t.Errorf("sum %v, want %v", s, sum)
	}
	if s := n.Sum2.Float64(); !(math.Abs(s-sum2) <= 1e-5*size) {
		t.Errorf("sum of squares %v, want %v", s, sum2)
	}
}

// some counts a random part of the pairs, with every optional result enabled, in two calls.
func (c *checked) some(t *testing.T) {
	n := c.counting(c.room())
	sorted := slices.Sorted(slices.Values(c.values))
	at := func(p float64) float32 { return sorted[int(p*float64(len(sorted)-1))] }
	n.Min, n.Max = at(.02), at(.97)
	n.Low, n.High = []float32{at(.3), at(.6)}, []float32{at(.32), at(.6)}
	if n.High[0] >= n.Low[1] {
		n.Low, n.High = n.Low[:1], n.High[:1]
	}
	n.Below = make([]int64, len(n.Low))
	n.Margin = float32(c.rng.Float64() * .1)
	n.Bins, n.BinLow, n.BinScale = make([]int64, 7), -1, 3.5
	for i := range n.Own {
		n.Own[i] = c.rng.Int32N(int32(c.a.N)+1) - 1
	}
	if n.CrossGroup = c.rng.IntN(2) == 0; n.CrossGroup || c.rng.IntN(2) == 0 {
		for range c.a.N {
			n.RowGroup = append(n.RowGroup, c.rng.Int32N(3))
		}
		for range c.b.N {
			n.ColumnGroup = append(n.ColumnGroup, c.rng.Int32N(3))
		}
	}
	own := func(row, lane int) bool { return n.Own[lane] == int32(row) }
	near := func(row, lane int) bool {
		return own(row, lane) || n.RowGroup != nil && n.RowGroup[row] == n.ColumnGroup[lane]
	}
	counted := func(row, lane int) bool { return !own(row, lane) && !(n.CrossGroup && near(row, lane)) }
	// The second call continues the first; its rows are relative to its own first row.
	half := c.rows.Count() / 2
	if err := c.d.Count(n, c.rows, 0, half, c.lanes, 0, c.lanes.Count()); err != nil {
		t.Fatal(err)
	}
	kept, other, all := n.Kept, n.Other, n.All
	n.Kept, n.Other, n.All = make([]device.Entry, 0, c.room()), make([]device.Entry, 0, c.room()),
		make([]device.Entry, 0, c.room())
	if err := c.d.Count(n, c.rows, half, c.rows.Count(), c.lanes, 0, c.lanes.Count()); err != nil {
		t.Fatal(err)
	}
	for _, list := range [][]device.Entry{n.Kept, n.Other, n.All} {
		for i := range list {
			list[i].At += uint32(half*device.Panel) << 16
		}
	}
	n.Kept, n.Other, n.All = append(kept, n.Kept...), append(other, n.Other...), append(all, n.All...)
	c.counts(t, n, counted)
	c.sums(t, n, counted)
	c.candidates(t, n.Other, n.BestOther, n.Margin,
		func(row, lane int) (must, may bool) { return !near(row, lane), !near(row, lane) })
	c.candidates(t, n.All, n.BestAll, n.Margin, func(row, lane int) (must, may bool) { return near(row, lane), true })
	full := c.counting(1)
	full.Min, full.NoBest = infinity, true
	if c.run(t, full); c.a.N*c.b.N > 1 && !full.KeptFull {
		t.Error("more pairs than there is room for, and no word of it")
	}
}

// counts checks the counts against the values.
func (c *checked) counts(t *testing.T, n *device.Count, counted func(row, lane int) bool) {
	t.Helper()
	var total int64
	var kept []device.Entry
	below, bins := make([]int64, len(n.Below)), int64(0)
	for i, v := range c.values {
		row, lane := i/c.b.N, i%c.b.N
		if !counted(row, lane) {
			continue
		}
		total++
		in := v <= n.Min || v >= n.Max
		for b := range below {
			if v < n.Low[b] {
				below[b]++
			}
			in = in || v >= n.Low[b] && v <= n.High[b]
		}
		if in {
			kept = append(kept, device.Entry{Value: v, At: uint32(row)<<16 | uint32(lane)})
		}
	}
	for _, b := range n.Bins {
		bins += b
	}
	got := slices.Clone(n.Kept)
	slices.SortFunc(got, func(a, b device.Entry) int { return cmp.Compare(a.At, b.At) })
	if n.Counted != total || bins != total || !slices.Equal(n.Below, below) || !slices.Equal(got, kept) {
		t.Fatalf("%d counted, %d binned, want %d; below %v, want %v; %d kept, want %d", n.Counted, bins, total, n.Below,
			below, len(got), len(kept))
	}
}

// candidates checks that list contains every pair within the margin of its lane's best value, and that best is the
// maximum over the pairs.
func (c *checked) candidates(t *testing.T, list []device.Entry, best []float32, margin float32,
	class func(row, lane int) (must, may bool)) {
	t.Helper()
	has := make(map[uint32]float32)
	for _, e := range list {
		row, lane := int(e.At>>16), int(e.At&0xffff)
		if _, may := class(row, lane); !may || e.Value != c.values[row*c.b.N+lane] {
			t.Fatalf("candidate %d, %d with value %v", row, lane, e.Value)
		}
		has[e.At] = e.Value
	}
	for lane := range c.b.N {
		top := -infinity
		for row := range c.a.N {
			if must, _ := class(row, lane); must {
				top = max(top, c.values[row*c.b.N+lane])
			}
		}
		if best[lane] < top {
			t.Fatalf("best of lane %d: %v, there is %v", lane, best[lane], top)
		}
		for row := range c.a.N {
			v := c.values[row*c.b.N+lane]
			if must, _ := class(row, lane); must && v >= best[lane]-margin {
				if _, ok := has[uint32(row)<<16|uint32(lane)]; !ok {
					t.Fatalf("pair %d, %d with %v is no candidate; best %v, margin %v", row, lane, v, best[lane],
						margin)
				}
			}
		}
	}
}

// Count implements device.Device, pair by pair, lanes outside.
func (d *StandIn) Count(c *device.Count, rows device.Set, row0, row1 int, lanes device.Set, lane0, lane1 int) error {
	leave, err := d.enter("Count")
	if err != nil {
		return err
	}
	defer leave()
	left, right, err := d.tiles(rows, row0, row1, lanes, lane0, lane1)
	if err != nil {
		return err
	}
	if row1-row0 > device.MaxSide || lane1-lane0 > device.MaxSide || len(c.Low) > device.MaxBrackets {
		return fmt.Errorf("%w: %d×%d panels, %d brackets", kernels.ErrShape, row1-row0, lane1-lane0, len(c.Low))
	}
	n := counting{c, left, right, row0 * device.Panel, lane0 * device.Panel}
	for lane := lane0; lane < lane1; lane++ {
		for row := row0; row < row1; row++ {
			if err := n.tile(row, lane); err != nil {
				return err
			}
		}
	}
	return nil
}

// counting is one call of Count.
type counting struct {
	*device.Count
	rows, lanes *set
	row0, lane0 int // first of the call
}

// tile counts the pairs of two panels and rounds their sums to units of 2⁻³⁰.
func (n *counting) tile(rowPanel, lanePanel int) error {
	var sum, sum2 float64
	for lane := lanePanel * device.Panel; lane < min(n.lanes.n, (lanePanel+1)*device.Panel); lane++ {
		for row := rowPanel * device.Panel; row < min(n.rows.n, (rowPanel+1)*device.Panel); row++ {
			v := value(n.rows, row, n.lanes, lane)
			near := n.Own[lane] == int32(row) || n.RowGroup != nil && n.RowGroup[row] == n.ColumnGroup[lane]
			if !n.NoBest {
				n.best(v, row, lane, near)
			}
			if n.Own[lane] == int32(row) || n.CrossGroup && near {
				continue
			}
			x := float64(v)
			if n.rows.metric == kernels.L2 {
				x = math.Sqrt(max(0, -2*x))
			}
			n.negative(v, x, row, lane)
			sum, sum2 = sum+x, sum2+x*x
		}
	}
	return errors.Join(add(&n.Sum, sum), add(&n.Sum2, sum2))
}

// add adds x, rounded to units of 2⁻³⁰.
func add(to *tiles.Sum, x float64) (err error) {
	units := math.Round(x * (1 << 30))
	if !(math.Abs(units) < 1<<62) {
		return fmt.Errorf("%w: a tile's sum of %v", kernels.ErrRange, x)
	}
	*to, err = to.Plus(tiles.Sum{Hi: int64(units) >> 63, Lo: uint64(int64(units))})
	return err
}

func (n *counting) entry(v float32, row, lane int) device.Entry {
	return device.Entry{Value: v, At: uint32(row-n.row0)<<16 | uint32(lane-n.lane0)}
}

// negative enters a pair that is counted; x is what its histogram is about.
func (n *counting) negative(v float32, x float64, row, lane int) {
	n.Counted++
	kept := v <= n.Min || v >= n.Max
	for b := range n.Low {
		if v < n.Low[b] {
			n.Below[b]++
		} else if v <= n.High[b] {
			kept = true
		}
	}
	if kept {
		if len(n.Kept) < cap(n.Kept) {
			n.Kept = append(n.Kept, n.entry(v, row, lane))
		} else if cap(n.Kept) > 0 {
			n.KeptFull = true
		}
	}
	if bins := len(n.Bins); bins > 0 {
		at := (float32(x) - n.BinLow) * n.BinScale
		n.Bins[int(min(max(at, 0), float32(bins-1)))]++
	}
}

// best enters a pair among the candidates for its lane's maximum.
func (n *counting) best(v float32, row, lane int, near bool) {
	list, full, best := &n.Other, &n.OtherFull, &n.BestOther[lane-n.lane0]
	if near {
		list, full, best = &n.All, &n.AllFull, &n.BestAll[lane-n.lane0]
	}
	if v < *best-n.Margin {
		return
	}
	*best = max(*best, v)
	if len(*list) == cap(*list) {
		*full = true
		return
	}
	*list = append(*list, n.entry(v, row, lane))
}
