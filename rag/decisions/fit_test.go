package decisions

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/ingest"
)

// calibration calibrates a base that holds the four contexts of package doubles.
func calibration(t *testing.T) *gate.Calibration {
	t.Helper()
	b := doubles.NewBase(t, nil)
	_, err := ingest.Run(t.Context(), b.Base, ingest.Input{Paths: []string{b.File(t, "c.jsonl", doubles.Contexts)},
		Options: ingest.Options{NoChunk: true}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := calibrate.Run(t.Context(), b.Base, calibrate.Input{Options: calibrate.Options{
		Queries: strings.NewReader(doubles.Questions), Source: "q"}, Model: b.Generator})
	if err != nil {
		t.Fatal(err)
	}
	return r.Calibration
}

// labelled are questions in scope with scores from in on, and others up to out, with some noise.
func labelled(n int, in, out float64) (list []Labelled) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		list = append(list, Labelled{fmt.Sprintf("in%03d", i), in + .05*r.Float64(), true},
			Labelled{fmt.Sprintf("out%03d", i), out - .05*r.Float64(), false})
	}
	return list
}

func TestFit(t *testing.T) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	c := calibration(t)
	low := c.Cutoff - .15
	f, err := Fit(c, labelled(40, low+.02, low-.02), 0, 1) // both kinds lie below the cut-off in force
	if err != nil {
		t.Fatal(err)
	}
	if !f.Changed || f.HoldoutBefore.Balanced != .5 || f.HoldoutAfter.Balanced != 1 || f.HoldoutAfter.InScope != 12 ||
		f.HoldoutAfter.OutOfScope != 12 || f.TrainingAfter.InScope != 28 || f.Questions != 80 {
		t.Errorf("%+v", f)
	}
	n, err := c.WithPolicy(f.After.Policy, c.Score, f.After.Threshold)
	if err != nil || n.Cutoff != f.After.Cutoff {
		t.Errorf("the calibration has the cut-off %v, not %v: %v", n.Cutoff, f.After.Cutoff, err)
	}
	for _, x := range labelled(40, low+.02, low-.02) {
		if c.Metric.Better(x.Score, n.Cutoff) != x.InScope {
			t.Errorf("%+v is decided wrongly at %v", x, n.Cutoff)
		}
	}
	// What is right already stays.
	f, err = Fit(c, labelled(40, c.Cutoff+.01, c.Cutoff-.01), .5, 1)
	if err != nil || f.Changed || f.After != f.Before || f.HoldoutAfter.Balanced != 1 || f.HoldoutAfter.InScope != 20 {
		t.Errorf("%+v, %v", f, err)
	}
}

// Noise is not fitted: what is worse with the questions held out is not taken.
func TestFitNoise(t *testing.T) {
	c := calibration(t)
	changed, worse := 0, 0
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 5))
		var list []Labelled
		for i := range 60 {
			list = append(list, Labelled{fmt.Sprint(i), c.Cutoff - .2 + .4*r.Float64(), i%2 == 0})
		}
		f, err := Fit(c, list, 0, seed)
		if err != nil {
			t.Fatal(err)
		}
		if f.Changed {
			changed++
		}
		if f.HoldoutAfter.Balanced < f.HoldoutBefore.Balanced {
			worse++
		}
	}
	if worse > 0 || changed == 40 {
		t.Errorf("of 40 fits to noise %d were taken, %d of them worse with the questions held out", changed, worse)
	}
}

func TestTooFew(t *testing.T) {
	c := calibration(t)
	for n, list := range map[string][]Labelled{
		"0 questions, 0 of them in scope and 0":   nil,
		"18 questions, 9 of them in scope and 9":  labelled(9, .6, .4),
		"40 questions, 40 of them in scope and 0": allIn(labelled(20, .6, .4)),
	} {
		if _, err := Fit(c, list, 0, 1); !errors.Is(err, ErrTooFew) || !strings.Contains(err.Error(), n) {
			t.Errorf("%v does not say %q", err, n)
		}
	}
	if _, err := Fit(c, labelled(20, .6, .4), 2, 1); err == nil {
		t.Error("a hold-out of 2")
	}
}

func allIn(list []Labelled) []Labelled {
	for i := range list {
		list[i].InScope = true
	}
	return list
}
