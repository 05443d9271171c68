package gate

import (
	"math"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/kernels"
)

// What an Effect counts at a policy and a threshold is what the calibration has as its evidence once it is given them,
// whatever the score: similarities, with words, distances.
func TestEffectsAreWhatWithPolicyFinds(t *testing.T) {
	all, heldOut, distances := input(80, 3, 4, 8), input(80, 3, 4, 8), input(80, 3, 4, 8)
	all.Topics, heldOut.Topics, distances.Topics = true, true, true
	all.Holdout, heldOut.Holdout, distances.Holdout, distances.Metric = 0, .2, .2, kernels.L2
	words := wordsInput(t, 5, 24, false)
	words.Score = "cosine+cover"
	questions := words
	questions.Score = "pseudo-query"
	for name, x := range map[string]struct {
		in     Input
		scores []string
	}{"all questions": {all, []string{"cosine"}}, "held out": {heldOut, []string{"cosine"}},
		"distances": {distances, []string{"l2"}}, "words": {words, []string{"cosine+cover", "cosine"}},
		"questions": {questions, []string{"pseudo-query", "cosine"}}} {
		c, _, err := Calibrate(t.Context(), newEngine(t), x.in)
		if err != nil {
			t.Fatal(name, err)
		}
		effects := c.Effects()
		if len(effects) != len(x.scores) || !effects[0].InForce || effects[0].Policies[0].Policy != c.Policy {
			t.Fatalf("%s: %+v", name, effects)
		}
		for i, e := range effects {
			if compared := compareEffect(t, c, e); compared < 20 || e.HeldOut != (x.in.Holdout > 0) ||
				e.Score != x.scores[i] ||
				e.InForce != (i == 0) {
				t.Errorf("%s: only %d were compared, held out %v, score %s", name, compared, e.HeldOut, e.Score)
			}
		}
	}
}

// compareEffect compares an Effect with the evidence of the calibration under its policies, and counts them.
func compareEffect(t *testing.T, c *Calibration, e Effect) (compared int) {
	t.Helper()
	way := 1.
	if e.Distance {
		way = -1
	}
	for _, v := range e.Policies {
		for _, threshold := range []float64{0, .01, -.01, .05} {
			n, err := c.WithPolicy(v.Policy, e.Score, threshold)
			if err != nil {
				continue // a threshold that decides nothing
			}
			compared++
			opens, through := e.Opens(e.InScope, v.Held-way*threshold), e.Opens(e.Others, v.Value-way*threshold)
			got := n.Evidence
			if opens != got.Opens || len(e.InScope) != got.InScope || len(e.Others)-through != got.KeptOut {
				t.Errorf("%s: %s, T = %g: opens for %d of %d, keeps out %d; want %+v", e.Score, v.Policy, threshold,
					opens,
					len(e.InScope), len(e.Others)-through, got)
			}
		}
	}
	return compared
}

// Histograms count every score once, over the axis that all of them share.
func TestEffectHistograms(t *testing.T) {
	in := input(80, 3, 4, 8)
	in.Topics = true
	c, positive, err := Calibrate(t.Context(), newEngine(t), in)
	if err != nil {
		t.Fatal(err)
	}
	e := c.Effects()[0]
	var kinds []string
	for _, h := range e.Shapes {
		kinds = append(kinds, h.Kind)
		var n int64
		for _, count := range h.Counts {
			n += count
		}
		if n != h.N {
			t.Errorf("%s counts %d of %d", h.Kind, n, h.N)
		}
	}
	if !slices.Equal(kinds, []string{"positive", "negative", "maximum", "others"}) {
		t.Errorf("%v", kinds)
	}
	first := e.Shapes[0]
	want := make([]int64, len(first.Counts))
	for _, x := range positive {
		want[min(int(float64(len(want))*(x-e.Bounds[0])/(e.Bounds[1]-e.Bounds[0])), len(want)-1)]++
	}
	if !slices.Equal(first.Counts, want) {
		t.Errorf("%v, want %v", first.Counts, want)
	}
}

// Of many scores only so many are listed, at equal distances.
func TestEffectsAreThinned(t *testing.T) {
	all := make([]float64, 10*effectScores)
	for i := range all {
		all[i] = float64(len(all) - i)
	}
	list, each := thinned(all)
	if each != 10 || len(list) != effectScores || !slices.IsSorted(list) {
		t.Fatalf("%d of %d, each for %d", len(list), len(all), each)
	}
	e := Effect{}
	if got, want := e.Opens(list, 30_000)*each, 10_960; math.Abs(float64(got-want)) > float64(each) {
		t.Errorf("%d above, want %d", got, want)
	}
}
