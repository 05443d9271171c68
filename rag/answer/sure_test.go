package answer_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/flow"
	"github.com/sluice-rag/sluice/rag/prompt"
)

// unsure is a model that writes as many words as it is told, of which the likeliest of the second has a probability.
type unsure struct {
	*doubles.Model
	words       int
	probability float64
}

func (u unsure) Generate(ctx context.Context, r llm.Request, stream func(string) error) (llm.Result, error) {
	res, err := u.Model.Generate(ctx, r, nil)
	if err != nil {
		return res, err
	}
	res.Text = strings.Repeat("word ", u.words)
	for i := range u.words {
		if r.LogProbs {
			t := llm.TokenLogProb{Text: "word ", LogProb: math.Log(.01), Top: []llm.TokenLogProb{{LogProb: -.01}}}
			if i == 1 {
				t.Top[0].LogProb = math.Log(u.probability)
			}
			res.LogProbs = append(res.LogProbs, t)
		}
		if stream != nil && err == nil {
			err = stream("word ")
		}
	}
	return res, err
}

// TestUnsure: a short answer from a model's own knowledge counts if the model was sure of each word, drawn or not.
func TestUnsure(t *testing.T) {
	const long = 80
	for name, c := range map[string]struct {
		words       int
		probability float64
		set         answer.Options
		form        answer.Form
		judged, idk bool
	}{
		"sure":      {words: 5, probability: .26, judged: true},
		"unsure":    {words: 5, probability: .24, judged: true, idk: true},
		"long":      {words: long, probability: .24, judged: true},
		"lower bar": {words: 5, probability: .24, judged: true, set: answer.Options{OwnFrom: .2}},
		"steps":     {words: 5, probability: .24, set: answer.Options{Own: prompt.ChainOfThought}},
		"schema":    {words: 5, probability: .24, form: answer.Form{Schema: json.RawMessage(`{"type":"string"}`)}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.set.Gate = answer.GateClosed
			o := overlay.On(answer.DefaultOptions(), c.set)
			o.Form = c.form
			var told []string
			o.Start = func(tr answer.Trace) { told = append(told, "start: "+tr.Notice) }
			o.Stream = func(piece string) error { told = append(told, piece); return nil }
			m := unsure{w.Model, c.words, c.probability}
			a, err := answer.Run(t.Context(), w.Base.Base, answer.Input{Question: "Who repaired the boiler?",
				Options: o, Model: func(context.Context) (llm.Generator, error) { return m, nil }})
			if err != nil {
				t.Fatal(err)
			}
			if r := w.Model.Requests(); len(r) != 1 || r[0].LogProbs != c.judged {
				t.Errorf("%d requests, the first with probabilities: %t", len(r), r[0].LogProbs)
			}
			text := strings.Join(told[1:], "")
			if idk := a.Trace.Outcome == flow.Unknown; idk != c.idk || text != a.Answer ||
				idk != (text == answer.IDontKnow) || !strings.HasPrefix(told[0], "start: ") {
				t.Errorf("outcome %q, answer %q, streamed %q", a.Trace.Outcome, a.Answer, told)
			}
			notice := a.Trace.Notice
			if told[0] != "start: "+notice || strings.Contains(notice, "its guess: word word") != c.idk {
				t.Errorf("notice %q, first %q", notice, told[0])
			}
			if pieces := len(told) - 1; c.words == long && c.judged && pieces != long-64 {
				t.Errorf("%d pieces: from the 65th token on, each is streamed", pieces)
			}
			score := a.Trace.Steps[len(a.Trace.Steps)-1].Score // of generate
			if (score != nil) != (c.judged && c.words < long) || score != nil && math.Abs(*score-c.probability) > 1e-9 {
				t.Errorf("score %v", score)
			}
		})
	}
}

// TestUnsureOfAll: 0 takes every answer, and asks for no probabilities.
func TestUnsureOfAll(t *testing.T) {
	w := newWorld(t)
	o := answer.DefaultOptions()
	o.Gate, o.OwnFrom = answer.GateClosed, 0
	a, err := answer.Run(t.Context(), w.Base.Base, answer.Input{Question: "Who repaired the boiler?", Options: o,
		Model: func(context.Context) (llm.Generator, error) { return unsure{w.Model, 3, .01}, nil }})
	if err != nil || a.Answer != "word word word " || w.Model.Requests()[0].LogProbs {
		t.Errorf("%v, %v", a, err)
	}
}

// brokenModel writes some words, and then fails.
type brokenModel struct {
	*doubles.Model
	text string
}

var errBroken = errors.New("broken")

func (b brokenModel) Generate(_ context.Context, _ llm.Request, stream func(string) error) (llm.Result, error) {
	if b.text != "" {
		_ = stream(b.text)
	}
	return llm.Result{Text: b.text}, errBroken
}

// TestErrorAfterWords: what was written before an error is streamed; before the first word, no answer is announced.
func TestErrorAfterWords(t *testing.T) {
	for _, text := range []string{"", "word"} {
		w := newWorld(t)
		o := answer.DefaultOptions()
		o.Gate = answer.GateClosed
		told := ""
		o.Start = func(answer.Trace) { told += "start " }
		o.Stream = func(piece string) error { told += piece; return nil }
		_, err := answer.Run(t.Context(), w.Base.Base, answer.Input{Question: "Who repaired the boiler?", Options: o,
			Model: func(context.Context) (llm.Generator, error) { return brokenModel{w.Model, text}, nil }})
		if want := map[string]string{"word": "start word"}[text]; told != want || !errors.Is(err, errBroken) {
			t.Errorf("told %q, %v", told, err)
		}
	}
}
