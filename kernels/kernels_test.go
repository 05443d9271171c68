package kernels

import (
	"encoding/json"
	"errors"
	"math"
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
