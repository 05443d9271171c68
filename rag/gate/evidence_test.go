package gate

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
)

// An interval is bounded by the contexts from as many on as say something about the statistic: with fewer, the lowest
// of a sample lies above the quantile more often than the level allows.
func TestIntervalsAreBoundedByEnoughContexts(t *testing.T) {
	for policy, want := range map[string][2]int{"p5": {72, 2}, "maximum:p5": {72, 2}, "q1": {13, 3}, "median": {6, 6},
		"mean": {10, 10}, "min": {0, 1}, "max": {1, 0}, "p95": {2, 72}} {
		p, err := ParsePolicy(policy)
		if err != nil {
			t.Fatal(err)
		}
		low, high := p.bounds(kernels.Cosine, .95)
		if got := [2]int{low, high}; got != want {
			t.Errorf("%s: %v, want %v", policy, got, want)
		}
	}
	rng := rand.New(rand.NewPCG(3, 0))
	for _, n := range []int{20, 72, 150} {
		misses := 0
		for range 2000 {
			lowest := 1.
			for range n {
				lowest = min(lowest, rng.Float64())
			}
			if lowest > .05 {
				misses++
			}
		}
		if bounded := misses <= 2000*.03; bounded != (n >= 72) {
			t.Errorf("%d contexts: all of %d samples lie above their 5 %% quantile", n, misses)
		}
	}
}

// What a calibration is worth is said, by how many contexts and questions there are and by what the gate lets through.
func TestEvidence(t *testing.T) {
	for name, c := range map[string]struct {
		in       Input
		policy   string
		grade    Grade
		verdict  string
		warning  string
		interval string
	}{
		"one context": {input(1, 3, 1, 8), "", GradeLittle, "it is not known what it keeps out",
			"the gate rests on too little: questions about 1 context, maximum:p5 needs 20; the store has 1: add " +
				"documents",
			"no 95 % interval; it takes 72 contexts for one, there are 1"},
		"a small sample": {sampled(input(60, 3, 4, 8), 4), "", GradeLittle, "too little to rely on",
			"questions about 4 contexts, maximum:p5 needs 20; write more questions (--sample)", "95 % interval up to "},
		"one topic": {input(40, 3, 1, 8), "", GradeUnknown, "it is not known what it keeps out, opens for ", "",
			"; it takes 72 contexts for a lower end, there are 40"},
		"enough": {input(100, 3, 4, 8), "maximum:q1", GradeGood, ": good", "", " to "},
		"a median": {input(30, 3, 4, 8), "maximum:median", GradeWeak, "opens for ", "the gate is weak: it keeps out ",
			" to "},
		"a minimum": {input(100, 3, 4, 8), "min", GradeWeak, "keeps out ", "; write more questions (--sample)",
			"; no number of contexts gives it a lower end"},
	} {
		in := c.in
		in.Policy, in.Topics = c.policy, true
		cal, _, err := Calibrate(t.Context(), newEngine(t), in)
		if err != nil {
			t.Fatal(name, err)
		}
		e := cal.Evidence
		warnings := strings.Join(e.Warnings, "; ")
		if e.Grade != c.grade || !strings.Contains(e.Verdict, c.verdict) || !strings.Contains(warnings, c.warning) ||
			(c.warning == "") != (warnings == "") || !strings.Contains(cal.IntervalText(), c.interval) {
			t.Errorf("%s: %+v, %s", name, e, cal.IntervalText())
		}
	}
	alone, _, err := Calibrate(t.Context(), newEngine(t), input(1, 3, 1, 8))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := json.Marshal(alone); err != nil || strings.Contains(string(text), `"separation"`) {
		t.Errorf("a separation from nothing: %s %v", text, err)
	}
}

// Where chunks have no topics, general questions tell what the gate keeps out.
func TestGeneralQuestions(t *testing.T) {
	in := input(40, 3, 4, 8)
	in.General = engine.Vectors{Rows: 12, Dim: 8, Data: make([]float32, 12*8)}
	for i := range in.General.Rows { // far from all contexts, but for two that are contexts
		in.General.Data[i*8+7] = -1
		if i < 2 {
			copy(in.General.Data[i*8:], in.Contexts.Data[i*8:(i+1)*8])
		}
	}
	c, positive, err := Calibrate(t.Context(), newEngine(t), in)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.cal.json")
	if err := c.Save(path, positive); err != nil {
		t.Fatal(err)
	}
	if c, _, err = Load(path); err != nil {
		t.Fatal(err)
	}
	if e := c.Evidence; e.Others != 12 || e.KeptOut != 10 || e.Grade != GradeFair ||
		!strings.Contains(e.Verdict, "keeps out 10 of 12 general questions") {
		t.Errorf("%+v", e)
	}
	strict, err := c.WithPolicy("min", "", 0)
	if err != nil || strict.Evidence.Others != 12 {
		t.Errorf("%+v %v", strict, err)
	}
}

// sampled keeps the questions of the first contexts.
func sampled(in Input, contexts int) Input {
	per := len(in.Owner) / in.Contexts.Rows
	in.Queries.Rows = contexts * per
	in.Queries.Data = in.Queries.Data[:in.Queries.Rows*in.Queries.Dim]
	in.Owner = in.Owner[:in.Queries.Rows]
	return in
}

// A threshold beyond all scores makes a gate that decides nothing.
func TestThresholdsThatDecideNothing(t *testing.T) {
	in := input(30, 3, 4, 8)
	e := newEngine(t)
	c, _, err := Calibrate(t.Context(), e, in)
	if err != nil {
		t.Fatal(err)
	}
	l2 := in
	l2.Metric, l2.Policy = kernels.L2, ""
	d, _, err := Calibrate(t.Context(), e, l2)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		c    *Calibration
		t    float64
		says string
	}{{c, -5, "never open"}, {c, 5, "always be open"}, {c, -1.2, "never open"}, {d, -50, "never open"},
		{d, 50, "always be open"}} {
		if _, err := x.c.WithPolicy(x.c.Policy, "", x.t); !errors.Is(err, ErrThreshold) ||
			!strings.Contains(err.Error(), x.says) {
			t.Errorf("%v %v: %v", x.c.Metric, x.t, err)
		}
	}
	for _, x := range []float64{-5, 5} {
		in.Threshold = x
		if _, _, err := Calibrate(t.Context(), e, in); !errors.Is(err, ErrThreshold) {
			t.Errorf("%v: %v", x, err)
		}
	}
	if _, err := c.WithPolicy("max", "", 0); err != nil {
		t.Errorf("a strict policy: %v", err)
	}
	if _, err := c.WithPolicy(c.Policy, "", .05); err != nil {
		t.Error(err)
	}
}
