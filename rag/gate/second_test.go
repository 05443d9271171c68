package gate

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// askedOf returns questions whose evidence is higher with their own context, by gap standard deviations, and each fifth
// on average of which is not found.
func askedOf(n int, gap float64, seed uint64) (all []Asked) {
	random := rand.New(rand.NewPCG(seed, 0))
	for range n {
		without := Features{Evidence: random.NormFloat64()}
		with := Features{Evidence: random.NormFloat64() + gap}
		a := Asked{With: with, Without: without, Found: random.IntN(5) > 0}
		if !a.Found {
			a.With = a.Without
		}
		all = append(all, a)
	}
	return all
}

func TestSecond(t *testing.T) {
	s, err := NewSecond("conformal:0.1", 3, askedOf(150, 3, 1))
	if err != nil {
		t.Fatal(err)
	}
	if s.Fitted != 50 || len(s.With) != 100 || s.Promise.Closed.Of != 100 || s.Promise.Closed.Rank != 10 {
		t.Errorf("fitted %d, %d scores, %+v", s.Fitted, len(s.With), s.Promise.Closed)
	}
	if s.Cutoff != math.Nextafter(s.With[9], math.Inf(-1)) || s.AUROC < .95 || s.Caught <= .3 {
		t.Errorf("%+v", s)
	}
	c := &Calibration{Second: s}
	if err := s.check(); err != nil {
		t.Error(err)
	}
	g := &Gate{c: c}
	for _, x := range []struct {
		evidence float64
		want     Sufficiency
	}{{6, Answers}, {-6, TopicOnly}} {
		d, err := g.DecideSecond(Features{Evidence: x.evidence})
		if err != nil || d.Verdict != x.want || d.PIn <= 0 || d.PIn > 1 {
			t.Errorf("evidence %g: %+v, %v", x.evidence, d, err)
		}
	}
	if _, err := g.DecideSecond(Features{Reader: new(1.)}); !errors.Is(err, ErrMismatch) {
		t.Errorf("other features: %v", err)
	}
	text := strings.Join(c.Promises(), "\n")
	if !strings.Contains(text, "at most 10 % of questions like the calibration's get \"topic only\"") {
		t.Error(text)
	}
	c.Holdout = &Holdout{Contexts: 60, ContextsSkipped: 0}
	if text = strings.Join(c.Promises(), "\n"); !strings.Contains(text, "together at most 14.9 %") { // 1 − .05^(1/60)
		t.Error(text)
	}
}

// TestDiscriminant: log odds of normal distributions with one variance, by their densities; what parts the rows
// has a finite weight, and what is lower in the first ones has none.
func TestDiscriminant(t *testing.T) {
	with := [][]float64{{1, 4, 0, 1, 2}, {1, 6, 2, 1, 0}, {1, 8, 4, 1, 1}}
	without := [][]float64{{1, 1, -1, 0, 3}, {1, 3, 1, 0, 4}, {1, 5, 3, 0, 2}}
	w := discriminant(with, without, 5)
	density := func(x, mean float64) float64 { return math.Exp(-(x - mean) * (x - mean) / 2 / (8./3 + leastVariance)) }
	x := []float64{1, 5, 3}
	want := math.Log(density(5, 6) * density(3, 2) / density(5, 3) / density(3, 1))
	got := -(w[1]*9/2 + w[2]*3/2)
	for k := range x[1:] {
		got += w[k+1] * x[k+1]
	}
	if math.Abs(got-want) > 1e-9 || w[3] < 100 || !finite(w[3]) || w[4] != 0 {
		t.Errorf("%v: %v, not %v", w, got, want)
	}
	if w := discriminant(nil, nil, 2); w[0] != 0 || w[1] != 0 {
		t.Errorf("of nothing: %v", w)
	}
}

// A question that is exchangeable with those of the calibration gets "topic only" with the probability that its rank
// gives, however the weights came out.
func TestSecondKeepsItsPromise(t *testing.T) {
	const times = 2000
	wrong := 0
	for seed := range uint64(times) {
		all := askedOf(61, 1, seed)
		s, err := NewSecond("conformal:0.2", 1, all[:60])
		if errors.Is(err, ErrPromise) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if s.Score(all[60].With) <= s.Cutoff {
			wrong++
		}
	}
	want := 8. / 41 // ⌊.2 · 41⌋ of 40 scores and the new one; each fifth is not found, which makes some ties
	if got := float64(wrong) / times; math.Abs(got-want) > 3*math.Sqrt(want*(1-want)/times) {
		t.Errorf("%.4f get topic only, %.4f are promised", got, want)
	}
}

func TestSecondRefuses(t *testing.T) {
	for _, x := range []struct {
		policy string
		asked  []Asked
		want   string
	}{
		{"", askedOf(18, 3, 1), "takes questions about 19 contexts, there are 18"},
		{"conformal:0.01", askedOf(60, 3, 1), "needs 99 contexts beside those of the weights, there are 40"},
		{"conformal:0.05/0.05", askedOf(150, 1, 1), "both sides of the second question cannot hold"},
		{"conformal:0.1", askedOf(150, -3, 1), "look no worse"},
	} {
		if _, err := NewSecond(x.policy, 1, x.asked); !errors.Is(err, ErrPromise) ||
			!strings.Contains(err.Error(), x.want) {
			t.Errorf("%s of %d: %v", x.policy, len(x.asked), err)
		}
	}
	for _, policy := range []string{"p5", "conformal:2", "on"} {
		if err := CheckSecond(policy); !errors.Is(err, ErrPolicy) {
			t.Errorf("%s: %v", policy, err)
		}
	}
	s, err := NewSecond("conformal:/0.2", 1, askedOf(150, 3, 1))
	if err != nil || s.Promise.Closed != nil || s.Caught < .8 {
		t.Fatalf("%+v, %v", s, err)
	}
	s.Cutoff++
	if err := s.check(); err == nil {
		t.Error("a cut-off that does not follow is read")
	}
}
