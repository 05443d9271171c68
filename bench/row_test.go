package bench

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/bench/harness"
)

func TestRowFormat(t *testing.T) {
	row := Row{Workload: "w1", Shape: "1700x5100x384", Impl: Own, ISA: "amx", DType: "bf16x3", Mode: "exact", Threads: 2}
	row.timed([]time.Duration{7 * time.Millisecond, 5 * time.Millisecond, 6 * time.Millisecond, 90 * time.Millisecond}, 8_664_900, 3250*time.Microsecond)
	got, err := json.Marshal(row)
	if err != nil {
		t.Fatal(err)
	}
	// median of 5 6 7 90 is 6.5 ms: 8,664,900 pairs in it are 1.333061…e9 a second, 3.25 ms are half of it
	const want = `{"workload":"w1","shape":"1700x5100x384","impl":"sluice","isa":"amx","dtype":"bf16x3","mode":"exact","threads":2,` +
		`"median_ms":6.5,"min_ms":5,"pairs_per_s":1333000000,"limit_pct":50,"max_error":0}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestRatios(t *testing.T) {
	row := func(impl, dtype string, median, minimum, worst float64) Row {
		return Row{Workload: "matrix", Shape: "s", Impl: impl, DType: dtype, MedianMS: median, MinMS: minimum, MaxError: worst}
	}
	rows := []Row{
		row(Own, "f32", 80, 75, 1e-7), row(Own, "bf16", 20, 20, 1e-3), row(Own, "i8", 8, 8, 1e-2),
		row("precise", "f32", 100, 90, 2e-6), row("slow", "f32", 300, 300, 1e-7), row("coarse", "bf16", 40, 30, 3e-3), row("coarser", "i8", 4, 4, 0.5),
		row(Own, "awful", 1, 1, 0.013), // worse than "coarse", and "coarser" is not as accurate
	}
	type line struct {
		DType, Peer   string
		Ratio, OfBest float64
	}
	var got []line
	for _, r := range ratios(rows, 2e-6) {
		got = append(got, line{r.DType, r.Peer, r.Ratio, r.RatioOfMin})
	}
	want := []line{
		{"f32", "precise", 1.25, 1.2}, // within the tolerance, though 20 times less exact; "coarse" is not
		{"bf16", "coarse", 2, 1.5},    // 3 times our error is as good
		{"i8", "coarse", 5, 3.75},     // 50 times our error is not
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := ratios(rows[:3], 1); got != nil {
		t.Errorf("without peers: %v", got)
	}
}

func TestDigits(t *testing.T) {
	for x, want := range map[float64]float64{0: 0, 123456: 123500, 0.00123456: 0.001235, -9.9999: -10, math.Inf(1): math.Inf(1)} {
		if got := harness.Digits(x); got != want {
			t.Errorf("harness.Digits(%v) = %v, want %v", x, got, want)
		}
	}
}

func TestDistancesOfTables(t *testing.T) {
	a := table{Positive: []float64{0, 1}, Negative: []float64{0, .5, 1}}
	for name, c := range map[string]struct {
		other table
		inner bool
		want  float64
	}{
		"itself":                {a, false, 0},
		"an extreme":            {table{a.Positive, []float64{-.25, .5, 1}}, false, .25},
		"an extreme, not asked": {table{a.Positive, []float64{-.25, .625, 9}}, true, .125},
		"a positive":            {table{[]float64{0, 1.5}, a.Negative}, true, .5},
		"not a number":          {table{a.Positive, []float64{0, math.NaN(), 1}}, false, math.Inf(1)},
		"another form":          {table{a.Positive, nil}, false, math.Inf(1)},
	} {
		if got := a.distance(c.other, c.inner); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestQuantilesOfCounts(t *testing.T) {
	c := counts{Histogram: make([]int64, histogramTo)}
	c.add(counts{Positive: []float64{1}, Histogram: histogram(map[int]int64{1024: 50})})
	c.add(counts{Positive: []float64{1}, Histogram: histogram(map[int]int64{1024: 50, 3072: 100})})
	got := c.table()
	// Half of 200 values lie in the bin that begins at -0.5, half in that at 0.5; each bin is 2/4096 wide.
	const width = 2. / histogramTo
	for i, want := range []float64{-.5, -.5 + width/10, -.5 + width/2, -.5 + width*.995, .5 + width/2, .5 + width*.9, .5 + width} {
		if math.Abs(got.Negative[i]-want) > width/50 {
			t.Errorf("quantile %d is %v, want %v", i, got.Negative[i], want)
		}
	}
	if got.Positive[0] != 1 {
		t.Error(got.Positive)
	}
	if d := got.distance(counts{Positive: []float64{1}, Histogram: make([]int64, histogramTo)}.table(), true); !math.IsInf(d, 1) {
		t.Errorf("an empty histogram is %v away", d)
	}
}

func histogram(bins map[int]int64) []int64 {
	h := make([]int64, histogramTo)
	for b, n := range bins {
		h[b] = n
	}
	return h
}

func TestBatches(t *testing.T) {
	list := []int{10, 11, 12, 13, 14}
	if diff := cmp.Diff([][]int{{12, 13}, {14, 10}}, batches(list, 2, 2, 3)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([][]int{{13}}, batches(list, 1, 1, 3)); diff != "" {
		t.Error(diff)
	}
}
