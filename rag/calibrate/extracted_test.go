package calibrate_test

import (
	"context"
	"errors"
	"testing"

	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/exam"
	"github.com/sluice-rag/sluice/rag/knowledge"
)

// asks returns the scorecard of a model whose questions have that distance from people's; extracted ones have .2.
func asks(distance float64) func(context.Context) (*exam.Card, error) {
	r := exam.Result{Questions: exam.Questions{Model: distance, Extracted: .2, Kept: exam.Share{N: 9, Of: 10}}}
	return func(context.Context) (*exam.Card, error) {
		return &exam.Card{Sets: map[string]exam.Result{"en": r}}, nil
	}
}

// TestQuestionsFollowTheScorecard: a model whose questions are less like people's than extracted ones writes none,
// unless the user asks for written ones; with Strict that is an error.
func TestQuestionsFollowTheScorecard(t *testing.T) {
	for name, c := range map[string]struct {
		card      func(context.Context) (*exam.Card, error)
		questions string
		strict    bool
		kind      string
		err       error
	}{
		"near": {asks(.1), "", false, "generated", nil},
		"far":  {asks(.3), "auto", false, calibrate.Extracted, nil},
		"not examined": {func(context.Context) (*exam.Card, error) { return nil, nil }, "", false,
			calibrate.Extracted, nil},
		"nobody asks":   {nil, "", false, "generated", nil},
		"far, strict":   {asks(.3), "", true, "", calibrate.ErrQuestions},
		"far, named":    {asks(.3), calibrate.Written, true, "generated", nil},
		"near, without": {asks(.1), calibrate.Extracted, false, calibrate.Extracted, nil},
		"nonsense":      {nil, "sung", false, "", knowledge.ErrOption},
	} {
		w := newWorld(t)
		w.Model.Answers = []string{" does a deferred function run when the surrounding function returns?"}
		in := calibrate.Input{Model: w.Generator, Card: c.card}
		in.PerContext, in.RankLimit, in.Strict, in.Options.Questions = 1, 5, c.strict, c.questions
		r, err := calibrate.Run(t.Context(), w.Base.Base, in)
		if !errors.Is(err, c.err) || (c.err == nil) != (err == nil) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err != nil {
			continue
		}
		asked := len(w.Model.Requests())
		if r.Queries.Kind != c.kind || r.Report.Extracted != (c.kind == calibrate.Extracted) ||
			(asked > 0) == r.Report.Extracted || r.Report.Kept == 0 {
			t.Errorf("%s: %+v, %+v, %d requests", name, r.Queries, r.Report, asked)
		}
	}
}

// TestFollowExtractsAgain: a calibration from the contexts' words stays one, whatever the model can do by now.
func TestFollowExtractsAgain(t *testing.T) {
	w, sync, path := synced(t)
	in := calibrate.Input{Model: w.Generator, Card: asks(.3)}
	in.PerContext, in.Resamples = 2, -1
	if _, err := calibrate.Run(t.Context(), w.Base.Base, in); err != nil {
		t.Fatal(err)
	}
	write(t, path(3), "The keeper knows of a fourth light now.")
	sync()
	r, err := calibrate.Follow(t.Context(), w.Base.Base, calibrate.Input{Model: w.Generator, Card: asks(.1)})
	if err != nil || r == nil || r.Queries.Kind != calibrate.Extracted || len(w.Model.Requests()) > 0 {
		t.Fatalf("%v, %+v", err, r)
	}
	in.Card = asks(.3)
	all, err := calibrate.Run(t.Context(), w.Base.Base, in)
	if err != nil || all.Cutoff != r.Cutoff || all.Positive.N != r.Positive.N || all.Score != r.Score {
		t.Errorf("%v: %v of %d by %s, followed %v of %d by %s", err, all.Cutoff, all.Positive.N, all.Score, r.Cutoff,
			r.Positive.N, r.Score)
	}
}
