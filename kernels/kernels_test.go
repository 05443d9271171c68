package kernels

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"testing"
)

func TestMetricText(t *testing.T) {
	for _, m := range []Metric{Cosine, IP, L2} {
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		back := Metric(99)
		if err := json.Unmarshal(text, &back); err != nil || back != m {
			t.Errorf("%s came back as %s, %v", text, back, err)
		}
	}
	for _, bad := range []string{`"Cosine"`, `""`, `"euclid"`} {
		var m Metric
		if err := json.Unmarshal([]byte(bad), &m); !errors.Is(err, ErrMetric) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if s := Metric(7).String(); s != "metric(7)" {
		t.Errorf("unknown metric prints %q", s)
	}
}

func TestMetricOrder(t *testing.T) {
	for m, closer := range map[Metric][2]float64{Cosine: {.5, .4}, IP: {3, -3}, L2: {1, 2}} {
		a, b := closer[0], closer[1]
		if !m.Better(a, b) || m.Better(b, a) || m.Better(a, a) {
			t.Errorf("%s: %v must be strictly better than %v", m, a, b)
		}
		if !m.Better(math.MaxFloat64, m.Worst()) || !m.Better(-math.MaxFloat64, m.Worst()) {
			t.Errorf("%s: some score is not better than the worst", m)
		}
		if !m.Better(m.Biased(b, 9), b) || m.Biased(a, 0) != a {
			t.Errorf("%s: a bias must add closeness", m)
		}
		if m.Ascending() != (m == L2) {
			t.Errorf("%s: ascending %v", m, m.Ascending())
		}
	}
}

func TestBiasList(t *testing.T) {
	l := BiasList{{Row: 2, Value: .5}, {Row: 3, Value: 1e300}, {Row: 9, Value: .1}}
	for row, want := range map[int]float64{-1: 0, 2: .5, 3: 1e300, 4: 0, 9: .1, 10: 0} {
		if got := l.At(row); got != want {
			t.Errorf("row %d: %v, want %v", row, got, want)
		}
	}
	for span, want := range map[[2]int]int{{0, 2}: 0, {2, 3}: 1, {3, 9}: 1, {0, 10}: 3, {10, 12}: 0} {
		if got := l.Between(span[0], span[1]); len(got) != want {
			t.Errorf("rows %v: %v", span, got)
		}
	}
	for _, tt := range []struct {
		b    RowBlock
		want []float32
	}{
		{RowBlock{Number: -1, First: 1, Len: 2}, []float32{0, .5}},
		{RowBlock{Number: 7, First: 1, Rows: []int32{8, 4, 1}, Len: 3}, []float32{.1, 0, .5}},
	} {
		out := make([]float32, tt.b.Len)
		if err := l.Read(tt.b, out); err != nil || !slices.Equal(out, tt.want) {
			t.Errorf("%v: %v, %v", tt.b, out, err)
		}
	}
}
