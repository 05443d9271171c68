package gate

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/sluice-rag/sluice/kernels"
)

// TestExceeds compares with sums of exact fractions (Python's fractions and math.comb).
func TestExceeds(t *testing.T) {
	for _, c := range []struct {
		n, k, m int
		level   float64
		want    float64
	}{{38, 1, 608, 0.05, 0.145749271223},
		{100, 5, 546, 0.05, 0.430433796822}, {300, 29, 346, 0.1, 0.421281251538}, {300, 23, 346, 0.1, 0.134530459097},
		{19, 1, 20, 0.05, 0.256410256410}} {
		if got := exceeds(c.n, c.k, c.m, c.level); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%+v: %.12f", c, got)
		}
	}
}

// TestCoverage: of continuous scores every policy does what is promised, whatever their distribution, and with domains
// those by domain as well.
func TestCoverage(t *testing.T) {
	c := mixed(400, rand.New(rand.NewPCG(46, 1)))
	s := Splits{Contexts: []int{38, 150}, Levels: []float64{.01, .1, .2}, Confident: []float64{.1}, Delta: .05,
		Times: 1000, Seed: 46}
	all, err := c.Coverage(s)
	if err != nil || len(all) != 8 {
		t.Fatal(all, err)
	}
	for _, x := range all {
		refuses := x.Level == .01 && x.Contexts == 38 || x.Policy == "conformal:0.1:0.05" && x.Contexts < 29 ||
			x.Level == .01 && x.Contexts < 99
		if x.Refused != refuses || !refuses && !x.Holds || x.Tested != 400-x.Contexts {
			t.Errorf("%+v", x)
		}
		if !refuses && math.Abs(x.Closed-x.Expected) > 3*x.Error {
			t.Errorf("%s of %d: kept out %.4f ± %.4f, expected %.4f", x.Policy, x.Contexts, x.Closed, x.Error,
				x.Expected)
		}
		if x.Policy != "conformal:0.1" || x.Contexts != 150 {
			continue
		}
		if len(x.Domains) != 3 || x.Domains[1].Name != "b" || x.Domains[1].ByAll < .15 {
			t.Errorf("%+v", x.Domains)
		}
		for _, d := range x.Domains {
			if d.ByDomain > .1+3*d.Error || d.Tested < 15 {
				t.Errorf("%+v", d)
			}
		}
	}
	again, err := c.Coverage(s)
	if err != nil || !reflect.DeepEqual(all, again) {
		t.Errorf("the same splits give something else: %v", err)
	}
	for _, bad := range []Splits{{}, {Contexts: []int{400}, Levels: []float64{.1}, Times: 9},
		{Contexts: []int{9}, Levels: []float64{1}, Times: 9}, {Contexts: []int{9}, Levels: []float64{.1}, Times: 1},
		{Contexts: []int{9}, Confident: []float64{.1}, Times: 9}, {Contexts: make([]int, 101), Times: 9}} {
		if _, err := c.Coverage(bad); !errors.Is(err, ErrSplits) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if _, err := (&Calibration{Metric: kernels.Cosine}).Coverage(s); !errors.Is(err, ErrPromise) {
		t.Error(err)
	}
}
