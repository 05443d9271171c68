package gate

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/embed/identity"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
)

// input returns a seeded base: contexts around a direction per group, pseudo-queries around their context.
func input(contexts, perContext, groups, dim int) Input {
	rng := rand.New(rand.NewPCG(7, 7))
	noise := func(scale float64) float32 { return float32(scale * rng.NormFloat64()) }
	in := Input{
		Contexts:     engine.Vectors{Rows: contexts, Dim: dim},
		Queries:      engine.Vectors{Rows: contexts * perContext, Dim: dim},
		Encoder:      identity.Encoder{Name: "tiny", Digest: "sha256:e1", TokenizerDigest: "sha256:t1", Dim: dim},
		CorpusDigest: "sha256:c1",
		Seed:         11, Holdout: .25, Tool: "test 1",
		Provenance: Provenance{Kind: "file", Source: "q.jsonl", PerContext: perContext},
	}
	for i := range contexts {
		in.ContextIDs = append(in.ContextIDs, string(rune('a'+i%26)))
		in.TextDigests = append(in.TextDigests, digest(i))
		in.Groups = append(in.Groups, int32(i%groups))
		context := make([]float32, dim)
		for k := range context {
			context[k] = noise(.35)
		}
		context[i%groups]++
		in.Contexts.Data = append(in.Contexts.Data, context...)
		for range perContext {
			for _, x := range context {
				in.Queries.Data = append(in.Queries.Data, x+noise(.3))
			}
			in.Owner = append(in.Owner, int32(i))
		}
	}
	return in
}

func TestCalibrate(t *testing.T) {
	in := input(40, 3, 4, 8)
	c, positive, err := Calibrate(t.Context(), newEngine(t), in)
	if err != nil {
		t.Fatal(err)
	}
	if c.Policy != DefaultPolicy(kernels.Cosine) || c.Schema != Schema || c.Queries.Queries != 120 ||
		c.Corpus.Groups != 4 || c.Corpus.Contexts != 40 || c.Negatives != "all" {
		t.Errorf("%+v", c)
	}
	if len(positive) != 120 || c.Positive.N != 120 || c.Negative.N != 120*39 || c.Maximum.N != 120 ||
		c.MaximumOther == nil || c.MaximumOther.N != 120 {
		t.Errorf("counts: D+ %d, %+v, %+v, %+v", len(positive), c.Positive, c.Negative, c.Maximum)
	}
	got := tableOf(positive)
	if math.Abs(got.Mean-c.Positive.Mean) > 1e-14 { // a sum in another order; everything else is exact
		t.Errorf("mean of D+ %v, table %v", got.Mean, c.Positive.Mean)
	}
	if got.Mean = c.Positive.Mean; got != c.Positive {
		t.Errorf("D+ %+v, table %+v", got, c.Positive)
	}
	if choice := newEngine(t).Describe(); c.Device != choice.Device || c.Kernel != choice.Kernel || c.Kernel == "" {
		t.Errorf("made on %s with %s, the engine says %+v", c.Device, c.Kernel, choice)
	}
	if c.PolicyValue != c.Maximum.P5 || c.Cutoff != c.PolicyValue {
		t.Errorf("P %v, cut-off %v, 5 %% quantile of the maximum distribution %v", c.PolicyValue, c.Cutoff,
			c.Maximum.P5)
	}
	if !(c.Separation > .9 && c.Separation <= 1) {
		t.Errorf("P(D+ > D−) = %v", c.Separation)
	}
	if b := c.Bootstrap; b.Resamples != DefaultResamples || b.Level != .95 ||
		!(b.Low < c.PolicyValue && c.PolicyValue < b.High) || b.Low < c.Maximum.Min {
		t.Errorf("interval %+v around %v", b, c.PolicyValue)
	}
	h := c.Holdout
	if h == nil || h.InScope != 30 || h.OutOfScope != 30 || h.Retrieved+h.FalseSkips != 30 || h.AUROC == nil ||
		*h.AUROC < .8 || len(h.Alternatives) != len(alternatives) {
		t.Fatalf("hold-out %+v", h)
	}
	for i, a := range h.Alternatives {
		if a.Policy == "maximum:density:95" &&
			(a.Cutoff != h.Cutoff || a.Retrieved != h.Retrieved || a.FalseRetrieve != h.FalseRetrieve) {
			t.Errorf("alternative %d, the policy itself: %+v, report %+v", i, a, h)
		}
	}
}

// TestCalibrateMirrored: l2 distances d and inner products −d order the same way, so every decision,
// report and (negated) value must agree.
func TestCalibrateMirrored(t *testing.T) {
	in := input(30, 2, 3, 8)
	in.Metric, in.Policy, in.Threshold = kernels.L2, "density:95", .125
	c, positive, err := Calibrate(t.Context(), newEngine(t), in)
	if err != nil {
		t.Fatal(err)
	}
	if c.PolicyValue != c.Positive.P95 || c.Cutoff != c.PolicyValue+.125 {
		t.Errorf("P %v of %+v, cut-off %v: want p95 + T", c.PolicyValue, c.Positive, c.Cutoff)
	}
	if !(c.Separation > .9) {
		t.Errorf("P(D+ < D−) = %v", c.Separation)
	}
	negated := func(v []float64) []float64 {
		out := make([]float64, len(v))
		for i, x := range v {
			out[i] = -x
		}
		return out
	}
	p, _ := ParsePolicy("density:95")
	twin := scores{positive: negated(positive), maximum: negated(c.scores.maximum), other: negated(c.scores.other),
		owner: in.Owner}
	want := twin.holdout(p, kernels.IP, .125, in.Holdout, in.Seed)
	h := c.Holdout
	if h.Retrieved != want.Retrieved || h.FalseRetrieve != want.FalseRetrieve || h.InScope != want.InScope ||
		math.Abs(*h.AUROC-*want.AUROC) > 1e-12 || math.Abs(h.Cutoff+want.Cutoff) > 1e-12 {
		t.Errorf("l2 %+v, mirrored %+v", h, want)
	}
	b, err := bootstrap(t.Context(), nil, p, kernels.IP, twin.positive, in.Owner,
		Interval{Level: .95, Resamples: DefaultResamples, Seed: in.Seed})
	if err != nil || math.Abs(b.Low+c.Bootstrap.High) > 1e-12 || math.Abs(b.High+c.Bootstrap.Low) > 1e-12 {
		t.Errorf("l2 %+v, mirrored %+v, %v", c.Bootstrap, b, err)
	}
	if DefaultPolicy(kernels.L2) != "maximum:p95" {
		t.Errorf("default %s", DefaultPolicy(kernels.L2))
	}
}

func TestCalibrateSmallBases(t *testing.T) {
	in := input(1, 2, 1, 4)
	c, _, err := Calibrate(t.Context(), newEngine(t), in)
	if err != nil || c.Negative != (Stats{}) || c.Separation != 0 || c.Holdout != nil || c.MaximumOther != nil {
		t.Errorf("one context: %+v, %v", c, err)
	}
	in = input(6, 2, 1, 4)
	in.Groups = nil
	c, _, err = Calibrate(t.Context(), newEngine(t), in)
	if err != nil || c.Corpus.Groups != 1 || c.Holdout == nil || c.Holdout.OutOfScope != 0 || c.Holdout.AUROC != nil ||
		c.MaximumOther != nil {
		t.Errorf("one group: %+v, %+v, %v", c, c.Holdout, err)
	}
	in.Holdout, in.Resamples = 0, -1
	c, _, err = Calibrate(t.Context(), newEngine(t), in)
	if err != nil || c.Holdout != nil || c.Bootstrap.Resamples != 0 || c.Bootstrap.Low != 0 {
		t.Errorf("without reports: %+v, %+v, %v", c.Bootstrap, c.Holdout, err)
	}
}

func TestCalibrateRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Input)
		want   error
	}{
		"no queries":         {func(in *Input) { in.Queries, in.Owner = engine.Vectors{Dim: 4}, nil }, ErrQueries},
		"no contexts":        {func(in *Input) { in.Contexts.Rows = 0 }, kernels.ErrEmpty},
		"ids":                {func(in *Input) { in.ContextIDs = in.ContextIDs[1:] }, kernels.ErrShape},
		"digests":            {func(in *Input) { in.TextDigests = nil }, kernels.ErrShape},
		"groups":             {func(in *Input) { in.Groups = in.Groups[1:] }, kernels.ErrShape},
		"owners":             {func(in *Input) { in.Owner = in.Owner[1:] }, kernels.ErrShape},
		"owner outside":      {func(in *Input) { in.Owner[3] = 6 }, kernels.ErrShape},
		"owner negative":     {func(in *Input) { in.Owner[3] = -1 }, kernels.ErrShape},
		"dimension":          {func(in *Input) { in.Encoder.Dim = 5 }, kernels.ErrShape},
		"hold-out":           {func(in *Input) { in.Holdout = 1 }, kernels.ErrShape},
		"hold-out NaN":       {func(in *Input) { in.Holdout = math.NaN() }, kernels.ErrShape},
		"resamples":          {func(in *Input) { in.Resamples = maxResamples + 1 }, kernels.ErrShape},
		"threshold":          {func(in *Input) { in.Threshold = math.Inf(1) }, ErrPolicy},
		"policy":             {func(in *Input) { in.Policy = "p500" }, ErrPolicy},
		"negatives":          {func(in *Input) { in.Negatives = "some" }, ErrPolicy},
		"cross-topic of one": {func(in *Input) { in.Negatives, in.Groups = "cross-topic", nil }, ErrPolicy},
		"digest text":        {func(in *Input) { in.TextDigests[2] = "no digest" }, nil},
		"not a number": {func(in *Input) { in.Metric, in.Contexts.Data[1] = kernels.IP, float32(math.NaN()) },
			kernels.ErrNonFinite},
	} {
		in := input(6, 2, 2, 4)
		c.change(&in)
		if got, _, err := Calibrate(t.Context(), newEngine(t), in); err == nil || c.want != nil &&
			!errors.Is(err, c.want) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Calibrate(ctx, newEngine(t), input(6, 2, 2, 4)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestWithPolicy(t *testing.T) {
	in := input(40, 3, 4, 8)
	c, positive, err := Calibrate(t.Context(), newEngine(t), in)
	if err != nil {
		t.Fatal(err)
	}
	before := *c
	for _, policy := range []string{"min", "p5", "q1", "mean", "median", "maximum:min", "maximum:q3", "density:90"} {
		in.Policy, in.Threshold = policy, .0625
		want, _, err := Calibrate(t.Context(), newEngine(t), in)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.WithPolicy(policy, "", .0625)
		if err != nil {
			t.Fatal(err)
		}
		got.Created = want.Created
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: re-derived %+v\ncalibrated %+v", policy, got, want)
		}
	}
	if !reflect.DeepEqual(*c, before) {
		t.Error("WithPolicy changed its receiver")
	}
	if _, err := c.WithPolicy("p5", "", math.NaN()); !errors.Is(err, ErrPolicy) {
		t.Errorf("threshold NaN: %v", err)
	}
	bare := withCutoff(kernels.Cosine, .5, positive)
	if _, err := bare.WithPolicy("maximum:p5", "", 0); !errors.Is(err, ErrPolicy) {
		t.Errorf("maximum distribution not kept: %v", err)
	}
}

// TestBootstrapResamplesContexts: when all queries of a context score the same, the interval must be that
// of the contexts, however many queries each has; and it must be the plain bootstrap's when each has one.
func TestBootstrapResamplesContexts(t *testing.T) {
	p, _ := ParsePolicy("q1")
	base := Interval{Level: .9, Resamples: 400, Seed: 5}
	values, owner := thousand(60), make([]int32, 60)
	for i := range owner {
		owner[i] = int32(i)
	}
	single, err := bootstrap(t.Context(), nil, p, kernels.Cosine, values, owner, base)
	if err != nil {
		t.Fatal(err)
	}
	var copies []float64
	var copyOwner []int32
	for i, v := range values {
		for range 9 {
			copies, copyOwner = append(copies, v), append(copyOwner, int32(1000-i)) // any numbers name a context
		}
	}
	nine, err := bootstrap(t.Context(), nil, p, kernels.Cosine, copies, copyOwner, base)
	if err != nil {
		t.Fatal(err)
	}
	if w1, w9 := single.High-single.Low, nine.High-nine.Low; math.Abs(w1-w9) > .1*w1 {
		t.Errorf("nine copies of each score: width %v, single %v; resampling the queries would give a third", w9, w1)
	}
	// The plain bootstrap, drawn and sorted in full with the same numbers.
	rng := rand.New(rand.NewPCG(base.Seed, streamBootstrap))
	var drawn []float64
	for range base.Resamples {
		sample := make([]float64, len(values))
		for i := range sample {
			sample[i] = values[rng.IntN(len(values))]
		}
		drawn = append(drawn, p.value(kernels.Cosine, sorted(sample)))
	}
	slices.Sort(drawn)
	if lo, hi := (Policy{p: .05}).value(0, drawn), (Policy{p: .95}).value(0, drawn); math.Abs(lo-single.Low) > 1e-15 ||
		math.Abs(hi-single.High) > 1e-15 {
		t.Errorf("interval [%v, %v], in full [%v, %v]", single.Low, single.High, lo, hi)
	}
	again, _ := bootstrap(t.Context(), nil, p, kernels.Cosine, values, owner, base)
	other := base
	other.Seed++
	different, _ := bootstrap(t.Context(), nil, p, kernels.Cosine, values, owner, other)
	if again != single || different.Low == single.Low && different.High == single.High {
		t.Errorf("seeds: %+v, %+v, %+v", single, again, different)
	}
	// The standard error of the mean of 60 nearly uniform scores is about .29/√60 = .037.
	m, err := bootstrap(t.Context(), nil, Policy{mean: true}, kernels.Cosine, values, owner, base)
	if width := m.High - m.Low; err != nil || !(m.Low < mean(values) && mean(values) < m.High) || width < .09 ||
		width > .16 {
		t.Errorf("mean: %+v around %v, %v", m, mean(values), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := bootstrap(ctx, nil, p, kernels.Cosine, values, owner, base); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestBootstrapCovers: over many samples of a known distribution, 90 % intervals hold the true quantile
// about 90 % of the time.
func TestBootstrapCovers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	p, _ := ParsePolicy("median")
	covered := 0
	const trials = 200
	for range trials {
		var values []float64
		var owner []int32
		for c := range 80 {
			shift := rng.NormFloat64()
			for range 3 {
				values, owner = append(values, shift+.3*rng.NormFloat64()), append(owner, int32(c))
			}
		}
		b, err := bootstrap(t.Context(), nil, p, kernels.Cosine, values, owner,
			Interval{Level: .9, Resamples: 200, Seed: rng.Uint64()})
		if err != nil {
			t.Fatal(err)
		}
		if b.Low <= 0 && 0 <= b.High {
			covered++
		}
	}
	if rate := float64(covered) / trials; rate < .83 || rate > .97 {
		t.Errorf("intervals of level .9 cover the true median in %.3f of %d samples", rate, trials)
	}
}

func TestAUROC(t *testing.T) {
	in, out := []float64{.9, .8, .5, .5}, []float64{.1, .5, .8}
	// Pairs: .9 wins 3; .8 wins 2 and ties 1; each .5 wins 1 and ties 1 → (3 + 2.5 + 1.5 + 1.5) / 12.
	if got := auroc(kernels.Cosine, in, out); math.Abs(got-8.5/12) > 1e-15 {
		t.Errorf("similarity: %v", got)
	}
	if got := auroc(kernels.L2, in, out); math.Abs(got-3.5/12) > 1e-15 {
		t.Errorf("distance: %v", got)
	}
}
