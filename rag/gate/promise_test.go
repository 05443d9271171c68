package gate

import (
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/kernels"
)

// TestRanks compares with sums of exact binomial coefficients (Python's math.comb).
func TestRanks(t *testing.T) {
	for _, c := range []struct {
		n            int
		level, delta float64
		want         int
	}{
		{18, .05, 0, 0}, {19, .05, 0, 1}, {99, .05, 0, 5}, {98, .05, 0, 4}, {38, .01, 0, 0}, {99, .29, 0, 29},
		{58, .05, .05, 0}, {59, .05, .05, 1}, {300, .05, .05, 9}, {100, .1, .05, 5}, {1000, .05, .01, 35},
		{300, .2, .1, 51},
	} {
		if got := rankOf(c.n, c.level, c.delta); got != c.want {
			t.Errorf("rank of %+v: %d", c, got)
		}
		if least := needed(c.level, c.delta); (c.n >= least) != (c.want > 0) {
			t.Errorf("%+v: at least %d are needed", c, least)
		}
	}
	for _, c := range []struct {
		k, n int
		want float64 // Clopper and Pearson's table: the p with P(Bin(n, p) ≤ k) = .05
	}{{0, 10, .2589}, {1, 20, .2161}, {5, 100, .1023}, {10, 10, 1}} {
		if got := atMost(c.k, c.n, .95); math.Abs(got-c.want) > 1e-4 {
			t.Errorf("at most %d of %d: %v, expected %v", c.k, c.n, got, c.want)
		}
	}
}

func TestConformalPolicies(t *testing.T) {
	for s, want := range map[string]promised{"conformal:0.05": {closed: .05}, "conformal:.05": {closed: .05},
		"conformal:/0.1": {open: .1}, "conformal:0.05/0.1": {closed: .05, open: .1},
		"conformal:0.05/0.1:0.01": {.05, .1, .01}, "conformal:.1:.05": {closed: .1, delta: .05}} {
		if p, err := ParsePolicy(s); err != nil || *p.promised != want || p.Name != s {
			t.Errorf("%s: %+v, %v", s, p.promised, err)
		}
	}
	for _, s := range []string{"conformal:", "conformal:0", "conformal:1", "conformal:-.1", "conformal:1e-2",
		"conformal:.1/", "conformal:/", "conformal:.1:", "conformal:.1:.1:.1", "conformal:NaN", "conformal:.1/.1/.1",
		"maximum:conformal:.1", "conformal:0x.1"} {
		if p, err := ParsePolicy(s); !errors.Is(err, ErrPolicy) {
			t.Errorf("%s: %+v, %v", s, p, err)
		}
	}
}

// drawn is a calibration with a question of each of n contexts, whose scores are uniform.
func drawn(n int, r *rand.Rand) *Calibration {
	c := &Calibration{Metric: kernels.Cosine, Score: "cosine"}
	for i := range n {
		c.scores.maximum = append(c.scores.maximum, r.Float64())
		c.scores.owner = append(c.scores.owner, int32(i))
	}
	return c
}

// TestPromisesHold: of uniform scores, the probability that a new one is kept out is the cut-off itself. Its mean over
// calibrations is rank/(n+1), within three standard errors, and the confident form exceeds the level as often as the
// distribution of the order statistic says.
func TestPromisesHold(t *testing.T) {
	const draws = 2000
	for _, c := range []struct {
		n int
		p promised
	}{{38, promised{closed: .1}}, {100, promised{closed: .05}}, {300, promised{closed: .2}},
		{100, promised{closed: .1, delta: .05}}, {300, promised{closed: .05, delta: .1}}} {
		r := rand.New(rand.NewPCG(46, uint64(c.n)))
		var sum, squares float64
		above, rank := 0, 0
		for range draws {
			cut, promise, err := drawn(c.n, r).promise(c.p)
			if err != nil {
				t.Fatal(err)
			}
			rank, sum, squares = promise.Closed.Rank, sum+cut, squares+cut*cut
			if cut > c.p.closed {
				above++
			}
		}
		mean := sum / draws
		error := math.Sqrt((squares/draws - mean*mean) / draws)
		if want := float64(rank) / float64(c.n+1); math.Abs(mean-want) > 3*error || want > c.p.closed {
			t.Errorf("%+v: kept out %.4f on average, expected %.4f ± %.4f", c, mean, want, 3*error)
		}
		if c.p.delta > 0 {
			var expected float64 // P(Beta(k, n+1−k) > level)
			for i := range rank {
				expected += binomial(c.n, i, c.p.closed)
			}
			if got := float64(above) / draws; expected > c.p.delta ||
				math.Abs(got-expected) > 3*math.Sqrt(expected*(1-expected)/draws) {
				t.Errorf("%+v: above the level in %.4f of the calibrations, expected %.4f", c, got, expected)
			}
		}
	}
}

func TestPromise(t *testing.T) {
	c := &Calibration{Metric: kernels.Cosine, Score: "cosine"}
	c.scores.maximum = []float64{.5, .1, .3, .3, .9, .7, .6, .8, .4}
	c.scores.owner = []int32{0, 1, 2, 3, 4, 5, 6, 7, 8}
	c.scores.general = []float64{.05, .2, .1, .35}
	cut, p, err := c.promise(promised{closed: .3}) // the third of nine
	if err != nil || cut >= .3 || math.Nextafter(cut, 1) != .3 || p.Closed.Rank != 3 || p.Closed.Of != 9 ||
		p.Open != nil {
		t.Errorf("%v %+v %v", cut, p, err)
	}
	if !c.Metric.Better(.3, cut) {
		t.Error("a tie is closed")
	}
	cut, p, err = c.promise(promised{open: .25}) // the highest of four
	if err != nil || cut != .35 || p.Open.Rank != 1 || p.Open.Questions != "general questions" ||
		c.Metric.Better(.35, cut) {
		t.Errorf("%v %+v %v", cut, p, err)
	}
	_, _, err = c.promise(promised{closed: .3, open: .25})
	if !errors.Is(err, ErrPromise) || !strings.Contains(err.Error(), "both cannot hold") {
		t.Errorf("%v", err)
	}
	if cut, p, err = c.promise(promised{closed: .4, open: .25}); err != nil || math.Nextafter(cut, 1) != .4 ||
		len(p.Sentences()) != 2 {
		t.Errorf("%v %+v %v", cut, p, err)
	}
	_, _, err = c.promise(promised{closed: .05})
	if !errors.Is(err, ErrPromise) || !strings.Contains(err.Error(), "needs 19 contexts with a question, there are 9") {
		t.Errorf("%v", err)
	}
	mirrored := &Calibration{Metric: kernels.L2, Score: "l2"}
	for _, x := range c.scores.maximum {
		mirrored.scores.maximum = append(mirrored.scores.maximum, 1-x)
	}
	mirrored.scores.owner = c.scores.owner
	if cut, _, err = mirrored.promise(promised{closed: .3}); err != nil || math.Nextafter(cut, 0) != 1-.3 {
		t.Errorf("l2: %v %v", cut, err)
	}
	several := []float64{1, 2, 3, 4, 5, 6}
	one := oneEach(several, []int32{7, 7, 7, 3, 3, 9}, 1)
	if len(one) != 3 || one[2] != 6 {
		t.Errorf("one of each context: %v", one)
	}
}

// TestConformalCalibration: the artifact has the promise, reads back, is refused where it says something else, and a
// gate over other contexts says that the promise has lapsed.
func TestConformalCalibration(t *testing.T) {
	in := input(40, 3, 4, 8)
	in.Policy = "conformal:0.1"
	c, positive, err := Calibrate(t.Context(), newEngine(t), in)
	if err != nil {
		t.Fatal(err)
	}
	if c.Promise == nil || c.Promise.Closed.Of != 40 || c.Promise.Closed.Rank != 4 || c.Cutoff != c.PolicyValue ||
		c.Bootstrap.Low >= c.Bootstrap.High {
		t.Errorf("%+v, cut-off %v", c.Promise, c.Cutoff)
	}
	own := oneEach(c.scores.maximum, in.Owner, in.Seed)
	if got := len(own) - above(kernels.Cosine, own, c.Cutoff); got != 3 { // the fourth is just above the cut-off
		t.Errorf("%d of the calibration's questions are closed", got)
	}
	path := filepath.Join(t.TempDir(), "a.cal.json")
	if err := c.Save(path, positive); err != nil {
		t.Fatal(err)
	}
	again, _, err := Load(path)
	if err != nil || again.Promise.Sentences()[0] != c.Promise.Sentences()[0] {
		t.Fatalf("%v", err)
	}
	again.Promise.Closed.Level = .01
	if err := again.follows(); err == nil || !strings.Contains(err.Error(), "promises something else") {
		t.Errorf("%v", err)
	}
	g, err := New(c, positive, Use{Encoder: in.Encoder, Metric: kernels.Cosine})
	if err != nil {
		t.Fatal(err)
	}
	if p, ok := g.PIn(-2); !ok || p != 1./41 {
		t.Errorf("p of a score that is farther than all: %v", p)
	}
	if p, _ := g.PIn(2); p != 1 {
		t.Errorf("p of a score that is closer than all: %v", p)
	}
	if g.stale = .1; !strings.Contains(g.Warning(), "has lapsed") {
		t.Errorf("%q", g.Warning())
	}
	if _, err := c.WithPolicy("conformal:0.1", "cosine", .1); !errors.Is(err, ErrPolicy) {
		t.Errorf("a threshold: %v", err)
	}
	if _, err := g.WithShadow(Shadow{Policy: "conformal:0.1"}); !errors.Is(err, ErrPolicy) {
		t.Errorf("a shadow: %v", err)
	}
	for _, score := range []string{"pseudo-query", "cosine+cover"} {
		if err := CheckPolicy("conformal:0.1", score, kernels.Cosine); !errors.Is(err, ErrPolicy) {
			t.Errorf("%s: %v", score, err)
		}
	}
	if c, err = c.WithPolicy("conformal:0.2:0.1", "cosine", 0); err != nil || c.Promise.Closed.Confidence != .9 {
		t.Errorf("%+v %v", c, err)
	}
	if c, err = c.WithPolicy("maximum:p5", "", 0); err != nil || c.Promise != nil {
		t.Errorf("another policy: %+v %v", c.Promise, err)
	}
}
