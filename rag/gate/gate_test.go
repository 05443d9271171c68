package gate

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/embed/identity"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

var encoder = identity.Encoder{Name: "tiny", Digest: "sha256:e1", TokenizerDigest: "sha256:t1", Dim: 1}

// withCutoff returns a calibration of one-dimensional vectors with a given cut-off.
func withCutoff(m kernels.Metric, cut float64, positive []float64) *Calibration {
	s := tableOf(positive)
	return &Calibration{Schema: Schema, Encoder: encoder, Metric: m, Negatives: "all", Positive: s, Maximum: s,
		Policy: "p5", PolicyValue: cut, Cutoff: cut, scores: scores{positive: positive}}
}

func digest(i int) string { return fmt.Sprintf("%x", sha256.Sum256([]byte{byte(i), byte(i >> 8)})) }

// digests yields the digests of texts, as a live store does.
func digests(texts ...int) iter.Seq[[sha256.Size]byte] {
	return func(yield func([sha256.Size]byte) bool) {
		for _, i := range texts {
			if !yield(sha256.Sum256([]byte{byte(i), byte(i >> 8)})) {
				return
			}
		}
	}
}

func one(rows ...float32) engine.Vectors { return engine.Vectors{Data: rows, Rows: len(rows), Dim: 1} }

// TestDecideBothBranches: the authors' code answers a pass with a falsy and a refusal with a truthy value,
// and compares with ≥. Here closer is open, farther is closed, and equal is closed, for every metric.
func TestDecideBothBranches(t *testing.T) {
	contexts := retrieve.Contexts{Vectors: one(.5, .25, -1), IDs: []string{"a", "b", "c"}}
	for _, c := range []struct {
		name     string
		metric   kernels.Metric
		query    float32
		cut      float64
		open     bool
		id       string
		score    float64
		why      string
		position float64
	}{
		{"ip above", kernels.IP, 1, .4, true, "a", .5, "closer than the cut-off", 50},
		{"ip below", kernels.IP, 1, .6, false, "a", .5, "farther than the cut-off", 50},
		{"ip equal", kernels.IP, 1, .5, false, "a", .5, "strictly", 50},
		{"ip next below", kernels.IP, 1, math.Nextafter(.5, 0), true, "a", .5, "one float64 above the cut-off", 50},
		{"ip next above", kernels.IP, 1, math.Nextafter(.5, 1), false, "a", .5, "one float64 below the cut-off", 50},
		{"ip negative", kernels.IP, -1, -2, true, "c", 1, "best of negative query", 100},
		{"cosine equal", kernels.Cosine, 3, 1, false, "a", 1, "strictly; ties go to the lower row", 100},
		{"cosine next below", kernels.Cosine, 3, math.Nextafter(1, 0), true, "a", 1, "", 100},
		{"cosine zero query", kernels.Cosine, 0, -.5, true, "a", 0, "a zero vector has cosine 0", 0},
		{"l2 closer", kernels.L2, .75, .3, true, "a", .25, "smaller is closer", 75},
		{"l2 farther", kernels.L2, .75, .2, false, "a", .25, "", 75},
		{"l2 equal", kernels.L2, .75, .25, false, "a", .25, "strictly", 75},
		{"l2 next above", kernels.L2, .75, math.Nextafter(.25, 1), true, "a", .25, "one float64 inside the cut-off",
			75},
		{"l2 next below", kernels.L2, .75, math.Nextafter(.25, 0), false, "a", .25, "", 75},
	} {
		positive := []float64{.125, .5, .75, 1}
		g, err := New(withCutoff(c.metric, c.cut, positive), positive, Use{Encoder: encoder, Metric: c.metric})
		if err != nil {
			t.Fatal(err)
		}
		all, err := g.Decide(t.Context(), newEngine(t), contexts, one(c.query, c.query), nil)
		if err != nil || len(all) != 2 || all[0] != all[1] {
			t.Fatalf("%s: %+v, %v", c.name, all, err)
		}
		d := all[0]
		if d.Retrieve != c.open || d.ContextID != c.id || d.Score != c.score || d.Cutoff != c.cut ||
			d.Percentile != c.position {
			t.Errorf("%s (%s): %+v, %v; want open %v by %s at %v, percentile %v", c.name, c.why, d, err, c.open, c.id,
				c.score, c.position)
		}
		if found, err := g.Found(retrieve.Result{ID: c.id, Score: c.score}); err != nil || found != d {
			t.Errorf("%s: by a search that was made already %+v, %v; want %+v", c.name, found, err, d)
		}
		// Without a score: no search for the best one is made, and the witness opens the gate by itself.
		none := broken{newEngine(t), errors.New("a search for the best")}
		verdicts, err := g.Any(t.Context(), none, contexts, one(c.query, c.query), nil)
		if err != nil || len(verdicts) != 2 || verdicts[1].Retrieve != c.open ||
			(verdicts[1].ContextID != "") != c.open {
			t.Fatalf("%s: %+v, %v; want open %v", c.name, verdicts, err, c.open)
		}
	}
}

func TestDecideRefuses(t *testing.T) {
	positive := []float64{.5}
	g, err := New(withCutoff(kernels.IP, .4, positive), positive, Use{Encoder: encoder, Metric: kernels.IP})
	if err != nil {
		t.Fatal(err)
	}
	nan := float32(math.NaN())
	for name, c := range map[string]struct {
		vectors engine.Vectors
		ids     []string
		query   float32
		want    error
	}{
		"empty base":      {one(), nil, 1, kernels.ErrEmpty},
		"ids":             {one(1, 2), []string{"a"}, 1, kernels.ErrShape},
		"dimension":       {engine.Vectors{Data: []float32{1, 2}, Rows: 1, Dim: 2}, []string{"a"}, 1, ErrMismatch},
		"not a number":    {one(1), []string{"a"}, nan, kernels.ErrNonFinite},
		"infinite scores": {one(float32(math.Inf(1))), []string{"a"}, 1, kernels.ErrNonFinite},
	} {
		contexts := retrieve.Contexts{Vectors: c.vectors, IDs: c.ids}
		if d, err := g.Decide(t.Context(), newEngine(t), contexts, one(c.query), nil); !errors.Is(err, c.want) {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
		if d, err := g.Any(t.Context(), newEngine(t), contexts, one(c.query), nil); !errors.Is(err, c.want) {
			t.Errorf("%s, without a score: %+v, %v", name, d, err)
		}
	}
	contexts := retrieve.Contexts{Vectors: one(1), IDs: []string{"a"}}
	if d, err := g.Decide(t.Context(), newEngine(t), contexts, one(), nil); err != nil || len(d) != 0 {
		t.Errorf("no queries: %v, %v", d, err)
	}
	if d, err := g.Found(retrieve.Result{Score: math.NaN()}); !errors.Is(err, kernels.ErrNonFinite) {
		t.Errorf("a score that is no number: %+v, %v", d, err)
	}
	failing := errors.New("device lost")
	if _, err := g.Decide(t.Context(), broken{err: failing}, contexts, one(1), nil); !errors.Is(err, failing) {
		t.Errorf("an engine's error became %v", err)
	}
}

type broken struct {
	engine.Interface
	err error
}

func (b broken) TopK(
	context.Context, engine.Vectors, engine.Vectors, kernels.Metric, int, []engine.Biases,
) ([][]engine.Hit, error) {
	return nil, b.err
}

func TestNewRefusesAnotherEncoder(t *testing.T) {
	positive := []float64{.5}
	c := withCutoff(kernels.Cosine, .4, positive)
	ok := Use{Encoder: encoder}
	for name, change := range map[string]func(*Use){
		"sha256:e2": func(u *Use) { u.Encoder.Digest = "sha256:e2" },
		"sha256:t2": func(u *Use) { u.Encoder.TokenizerDigest = "sha256:t2" },
		"dimension": func(u *Use) { u.Encoder.Dim = 384 },
		"l2":        func(u *Use) { u.Metric = kernels.L2 },
	} {
		use := ok
		change(&use)
		if _, err := New(c, positive, use); !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ok.Encoder.Name = "the same weights in another folder"
	if _, err := New(c, positive, ok); err != nil {
		t.Errorf("another name alone: %v", err)
	}
	for _, p := range [][]float64{nil, {.5, .6}} {
		if _, err := New(c, p, ok); !errors.Is(err, ErrArtifact) {
			t.Errorf("D+ of %d scores: %v", len(p), err)
		}
	}
}

func TestStaleness(t *testing.T) {
	positive := []float64{.5}
	c := withCutoff(kernels.Cosine, .4, positive)
	var err error
	if c.ContextDigests, err = shortDigests([]string{digest(0), digest(1), digest(2), digest(3),
		digest(3)}); err != nil {
		t.Fatal(err)
	}
	none := new(float64)
	for _, s := range []struct {
		name        string
		live        []int
		tolerance   *float64
		stale, gone float64
		err         error
	}{
		{"as calibrated", []int{0, 1, 2, 3}, none, 0, 0, nil},
		{"order and copies do not matter", []int{3, 1, 1, 0, 2}, none, 0, 0, nil},
		{"grown within tolerance", []int{0, 1, 2, 3, 9}, new(.2), .2, 0, nil},
		{"grown above a tolerance", []int{0, 1, 2, 9}, new(.2), .25, .25, ErrStale},
		{"the default never refuses", []int{0, 6, 7, 8, 9}, nil, .8, .75, nil},
		{"zero tolerance", []int{0, 1, 2, 3, 9}, none, .2, 0, ErrStale},
		{"changed texts, tolerated", []int{8, 9}, new(1.), 1, 1, nil},
		{"shrunk only", []int{2}, none, 0, .75, nil},
		{"emptied", []int{}, none, 0, 1, nil},
	} {
		g, err := New(c, positive, Use{Encoder: encoder, TextDigests: digests(s.live...), StaleTolerance: s.tolerance})
		if !errors.Is(err, s.err) {
			t.Errorf("%s: %v", s.name, err)
			continue
		}
		if s.err != nil {
			if !strings.Contains(err.Error(), fmt.Sprintf("%.1f %%", 100*s.stale)) {
				t.Errorf("%s: the error does not say how stale: %v", s.name, err)
			}
			continue
		}
		if g.Stale() != s.stale || g.Gone() != s.gone {
			t.Errorf("%s: stale %v, gone %v; want %v, %v", s.name, g.Stale(), g.Gone(), s.stale, s.gone)
		}
		if said := g.Staleness(); strings.Contains(said, "came after") != (s.stale > 0) ||
			strings.Contains(said, "have gone") != (s.gone > 0) {
			t.Errorf("%s: it says %q", s.name, said)
		}
		d, err := g.Decide(t.Context(), newEngine(t), retrieve.Contexts{Vectors: one(1), IDs: []string{"a"}}, one(1),
			nil)
		if err != nil || d[0].Stale != s.stale {
			t.Errorf("%s: the decision says %+v, %v", s.name, d, err)
		}
	}
}
