package bench

import (
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/bench/harness"
)

func TestRowFormat(t *testing.T) {
	row := Row{Workload: "w1", Shape: "1700x5100x384", Impl: Own, ISA: "amx", DType: "bf16x3", Mode: "exact",
		Threads: 2}
	row.timed([][]time.Duration{{7 * time.Millisecond, 5 * time.Millisecond},
		{6 * time.Millisecond, 90 * time.Millisecond}},
		8_664_900, 3250*time.Microsecond)
	got, err := json.Marshal(row)
	if err != nil {
		t.Fatal(err)
	}
	// median of 5 6 7 90 is 6.5 ms: 8,664,900 pairs in it are 1.333061…e9 a second, 3.25 ms are half of it
	const want = `{"workload":"w1","shape":"1700x5100x384","impl":"sluice","isa":"amx","dtype":"bf16x3",` +
		`"mode":"exact","threads":2,` +
		`"median_ms":6.5,"min_ms":5,"rounds_ms":[6,48],"pairs_per_s":1333000000,"limit_pct":50,"max_error":0}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestRatios(t *testing.T) {
	row := func(impl, dtype string, median, minimum, worst float64) Row {
		return Row{Workload: "matrix", Shape: "s", Impl: impl, DType: dtype, MedianMS: median, MinMS: minimum,
			MaxError: worst}
	}
	rows := []Row{
		row(Own, "f32", 80, 75, 1e-7), row(Own, "bf16", 20, 20, 1e-3), row(Own, "i8", 8, 8, 1e-2),
		row("precise", "f32", 100, 90, 2e-6), row("slow", "f32", 300, 300, 1e-7), row("coarse", "bf16", 40, 30, 3e-3),
		row("coarser", "i8", 4, 4, 0.5),
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
	rows[0].RoundsMS, rows[3].RoundsMS = []float64{75, 80, 200}, []float64{90, 100, 100}
	if r := ratios(rows, 2e-6)[0]; r.Lowest != .5 || r.Highest != 1.25 {
		t.Errorf("ratios of the rounds are %v to %v, want .5 to 1.25", r.Lowest, r.Highest)
	}
	if got := ratios(rows[:3], 1); got != nil {
		t.Errorf("without peers: %v", got)
	}
}

func TestDigits(t *testing.T) {
	for x, want := range map[float64]float64{0: 0, 123456: 123500, 0.00123456: 0.001235, -9.9999: -10,
		math.Inf(1): math.Inf(1)} {
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
	const bin = sameBins
	part := func(below ...int64) counts {
		return counts{Positive: []float64{1}, Thresholds: []float64{-.5 - bin, -.5, .5, .5 + 2*bin}, Below: below,
			Pairs: 1001}
	}
	var c counts
	if err := errors.Join(c.add(part(20, 80, 700, 800)), c.add(part(30, 220, 1000, 1001))); err != nil {
		t.Fatal(err)
	}
	// 2,002 values: 50 below the first threshold, 300, 1,700 and 1,801 below the others. The 5th percentile is the
	// value at 100.05 from 0, which lies 50.05 of 250 values into the first interval; the 95th, at 1,900.95, is above
	// all thresholds.
	got := c.table()
	want := []float64{math.Inf(1), -.5 - bin + bin*50.05/250, math.Inf(1), math.Inf(1), math.Inf(1), math.Inf(1),
		math.Inf(1)}
	for i, x := range want {
		if got.Negative[i] != x && !(math.Abs(got.Negative[i]-x) < 1e-12) {
			t.Errorf("quantile %d is %v, want %v", i, got.Negative[i], x)
		}
	}
	if got.Positive[0] != 1 {
		t.Error(got.Positive)
	}
	if err := c.add(counts{Thresholds: []float64{0}, Below: []int64{1}}); !errors.Is(err, errNotNumber) {
		t.Errorf("other thresholds: %v", err)
	}
	if d := got.distance(counts{Positive: []float64{1}}.table(), true); !math.IsInf(d, 1) {
		t.Errorf("no counts are %v away", d)
	}
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
