package calibrate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/prompt"
)

// TestTheModelIsAskedWhetherPassagesAnswer: with Options.SecondModel the model's probabilities get a weight in the
// second question, also when the calibration follows the base, but not unasked. A model that gives none is an error. An
// interrupted calibration, and one that follows, does not ask again what was answered.
func TestTheModelIsAskedWhetherPassagesAnswer(t *testing.T) {
	w := &world{Base: doubles.NewBase(t, nil)}
	var lines, questions strings.Builder
	for i := range 40 {
		name := strings.Repeat(string(rune('a'+i%26)), 4+i/26)
		fmt.Fprintf(&lines, `{"id":"x%d","text":"The ship %s sails to the harbour of %[2]s%[2]s."}`+"\n", i, name)
		fmt.Fprintf(&questions, `{"context_id":"x%d","text":"Where does the ship %s sail?"}`+"\n", i, name)
	}
	in := ingest.Input{Paths: []string{w.File(t, "a.jsonl", lines.String())}, Options: ingest.Options{NoChunk: true}}
	if _, err := ingest.Run(t.Context(), w.Base.Base, in); err != nil {
		t.Fatal(err)
	}
	file := w.File(t, "questions.jsonl", questions.String())
	options := func(model bool) calibrate.Options {
		return calibrate.Options{Queries: strings.NewReader(questions.String()), Source: file, SecondModel: model}
	}
	r, err := w.calibrate(t, options(false))
	if err != nil || r.Second == nil || r.Second.Model != "" || len(w.Model.Requests()) > 0 {
		t.Fatalf("%v, %+v", err, r.Second)
	}
	if _, err = w.calibrate(t, options(true)); !errors.Is(err, prompt.ErrOdds) {
		t.Errorf("a model without log-probabilities: %v", err)
	}
	w.Model.Reset("Yes")
	w.Model.Top = func(r llm.Request) []llm.TokenLogProb {
		passages, question, _ := strings.Cut(r.Messages[len(r.Messages)-1].Content, "Question: ")
		name := strings.Fields(question)[4]
		if strings.Contains(passages, "The ship "+name+" sails") {
			return []llm.TokenLogProb{{Text: "Yes", LogProb: -.1}, {Text: "No", LogProb: -3}}
		}
		return []llm.TokenLogProb{{Text: "No", LogProb: -.1}, {Text: "Yes", LogProb: -3}}
	}
	yes := w.Model.Top
	ctx, cancel := context.WithCancel(t.Context())
	w.Model.Top = func(r llm.Request) []llm.TokenLogProb {
		if len(w.Model.Requests()) == 31 {
			cancel()
		}
		return yes(r)
	}
	_, err = calibrate.Run(ctx, w.Base.Base, calibrate.Input{Options: options(true), Model: w.Generator})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	w.Model.Top = yes
	if r, err = w.calibrate(t, options(true)); err != nil {
		t.Fatal(err)
	}
	if s := r.Second; s == nil || s.Model != w.Model.Info().Identity() || len(s.Weights) != 3 || s.Weights[2] <= 0 ||
		len(w.Model.Requests()) > 81+1 { // 80, one to find out whether it tells probabilities, and the interrupted one
		t.Fatalf("%d requests, %+v", len(w.Model.Requests()), s)
	}
	in.Paths = []string{w.File(t, "b.jsonl", `{"id":"y","text":"Elephants eat leaves."}`)}
	if _, err := ingest.Run(t.Context(), w.Base.Base, in); err != nil {
		t.Fatal(err)
	}
	follow := calibrate.Input{Options: calibrate.Options{Few: true}, Model: w.Generator}
	if _, err := calibrate.Follow(t.Context(), w.Base.Base, follow); !errors.Is(err, calibrate.ErrQuestions) {
		t.Errorf("unasked: %v", err)
	}
	follow.Few = false
	before := len(w.Model.Requests())
	if r, err = calibrate.Follow(t.Context(), w.Base.Base, follow); err != nil || r.Second.Model == "" {
		t.Errorf("%v, %+v", err, r)
	}
	if n := len(w.Model.Requests()) - before; n > 40 {
		t.Errorf("%d of 80 questions with their passages were asked again, few of which are new", n)
	}
}
