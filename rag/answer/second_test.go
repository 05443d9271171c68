package answer_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/flow"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/knowledge"
)

// newHarbour returns a base that knows what forty ships carry, with a second question.
func newHarbour(t *testing.T) world {
	t.Helper()
	w, s := newHarbourWith(t, nil)
	if s.AUROC != 1 {
		t.Fatalf("%+v", s)
	}
	return w
}

func newHarbourWith(t *testing.T, change func(*knowledge.Config)) (world, *gate.Second) {
	t.Helper()
	w := world{doubles.NewBase(t, change)}
	var contexts strings.Builder
	for i := range 40 {
		fmt.Fprintf(&contexts, `{"id":"c%d","text":"The ship %s lies in the harbour. It carries %s to the island."}`+
			"\n", i, ship(i), ship(i+40))
	}
	in := ingest.Input{Paths: []string{w.File(t, "a.jsonl", contexts.String())}, Options: ingest.Options{NoChunk: true}}
	if _, err := ingest.Run(t.Context(), w.Base.Base, in); err != nil {
		t.Fatal(err)
	}
	return w, calibrateHarbour(t, w, false)
}

// ship returns the name of a ship.
func ship(i int) string { return string([]rune{rune('b' + i%20), 'a', rune('b' + i/20), 'o', 'k'}) }

// calibrateHarbour calibrates with a question about each ship, and the language model asked whether passages answer.
func calibrateHarbour(t *testing.T, w world, model bool) *gate.Second {
	t.Helper()
	var questions strings.Builder
	for i := range 40 {
		fmt.Fprintf(&questions, `{"context_id":"c%d","text":"What does the ship %s carry to the island?"}`+"\n", i,
			ship(i))
	}
	o := calibrate.Options{Queries: strings.NewReader(questions.String()), Source: "questions", Policy: "maximum:min",
		Threshold: .09, SecondModel: model}
	r, err := calibrate.Run(t.Context(), w.Base.Base, calibrate.Input{Options: o, Model: w.Generator})
	if err != nil {
		t.Fatal(err)
	}
	if r.Second == nil || r.Second.Policy != gate.DefaultSecond || r.Second.Fitted != 13 {
		t.Fatalf("%+v", r.Second)
	}
	return r.Second
}

// TestSecondQuestion: a question whose words the passages lack gets the nearest sentences, and is said not to be
// answered; in the longer graphs as well.
func TestSecondQuestion(t *testing.T) {
	w := newHarbour(t)
	for _, x := range []struct {
		question string
		flow     string
		verdict  gate.Sufficiency
		style    answer.Style
	}{
		{"What does the ship dabok carry to the island?", answer.FlowAsk, gate.Answers, answer.Write},
		{"What does the ship Zzyzx carry to the island?", answer.FlowAsk, gate.TopicOnly, answer.Quote},
		{"What does the ship Zzyzx carry to the island?", answer.FlowGraph, gate.TopicOnly, answer.Quote},
	} {
		w.Model.Reset("Coal [1].")
		if x.flow == answer.FlowGraph { // which grades the quote
			w.Model.Reset(`{"relevant":"yes"}`, `{"grounded":"yes"}`, `{"resolves":"yes"}`)
		}
		a, err := w.ask(t, x.question, overlay.On(answer.DefaultOptions(),
			answer.Options{Flow: x.flow, Style: answer.Write,
				FlowOptions: answer.FlowOptions{Router: answer.ByGate, Grader: answer.ByLLM}}))
		if err != nil {
			t.Fatal(err)
		}
		s := a.Trace.Second
		if a.Trace.Verdict != x.verdict || s == nil || s.Verdict != x.verdict || a.Trace.Style != x.style ||
			(s.Score > s.Cutoff) != (x.verdict == gate.Answers) || len(a.Trace.Promises) == 0 {
			t.Fatalf("%s by %s: %q, %s, %+v", x.question, x.flow, a.Trace.Verdict, a.Trace.Style, s)
		}
		if said := strings.Contains(a.Trace.Notice, "do not seem to answer"); said != (x.verdict == gate.TopicOnly) {
			t.Errorf("%s by %s: notice %q", x.question, x.flow, a.Trace.Notice)
		}
		if x.verdict == gate.TopicOnly && (s.Parts.Names != 1 || !strings.Contains(a.Answer, "ship")) {
			t.Errorf("%+v, %q", s.Parts, a.Answer)
		}
	}
}

// TestGraphsRefuseWhatIsTopicOnly: a graph whose language model neither writes nor grades asks the gate and the second
// question, and does not know what the passages do not seem to answer, even where its grader is content.
func TestGraphsRefuseWhatIsTopicOnly(t *testing.T) {
	const (
		answered = "What does the ship dabok carry to the island?"
		topical  = "What does the ship Zzyzx carry to the island?"
	)
	reader := &doubles.Extractor{Answers: map[string]string{answered: "to the island", topical: "to the island"}}
	w, _ := newHarbourWith(t, func(c *knowledge.Config) {
		c.Extractor = func(context.Context) (embed.Extractor, error) { return reader, nil }
	})
	o := overlay.On(answer.DefaultOptions(), answer.Options{Flow: answer.FlowGraph})
	for question, want := range map[string]flow.Outcome{answered: flow.Answered, topical: flow.Unknown} {
		a, err := answer.Run(t.Context(), w.Base.Base, answer.Input{Question: question, Options: o, Model: w.Generator,
			Cards: cards(1, 8, false)})
		if err != nil {
			t.Fatal(err)
		}
		if a.Trace.Outcome != want || (len(a.Nearest) > 0) != (want == flow.Unknown) {
			t.Errorf("%s: %s, %q, %s, %+v", question, a.Trace.Outcome, a.Answer, a.Trace.Verdict, a.Trace.Read)
		}
	}
}

// TestPromisesLapse: over other contexts than the calibration's there is no promise.
func TestPromisesLapse(t *testing.T) {
	w := newHarbour(t)
	in := ingest.Input{Paths: []string{w.File(t, "b.jsonl", `{"id":"x","text":"The ship Vasa sank."}`)},
		Options: ingest.Options{NoChunk: true}}
	if _, err := ingest.Run(t.Context(), w.Base.Base, in); err != nil {
		t.Fatal(err)
	}
	a, err := w.ask(t, "What does the ship dabok carry to the island?", answer.DefaultOptions())
	if err != nil || !slices.Equal(a.Trace.Promises, []string{gate.NoPromise}) || a.Trace.Second.Warning == "" {
		t.Errorf("%v, %q, %+v", err, a.Trace.Promises, a.Trace.Second)
	}
}

func TestSecondQuestionStrict(t *testing.T) {
	w := newHarbour(t)
	a, err := w.ask(t, "What does the ship Zzyzx carry to the island?", overlay.On(answer.DefaultOptions(),
		answer.Options{Strict: true, Style: answer.Quote}))
	if err != nil || a.Trace.Outcome != flow.Unknown || a.Answer != answer.IDontKnow || len(a.Nearest) == 0 {
		t.Errorf("%v, %q, %+v", err, a.Answer, a.Trace)
	}
	a, err = w.ask(t, "zzyzx qqq", overlay.On(answer.DefaultOptions(), answer.Options{}))
	if err != nil || a.Trace.Verdict != gate.Outside || a.Trace.Second != nil || a.Retrieved {
		t.Errorf("%v, %q, %+v", err, a.Answer, a.Trace)
	}
	a, err = w.ask(t, "What does the ship Zzyzx carry to the island?", overlay.On(answer.DefaultOptions(),
		answer.Options{Gate: answer.GateOpen, Style: answer.Quote}))
	if err != nil || a.Trace.Verdict != "" || a.Trace.Second != nil {
		t.Errorf("with the gate held open: %v, %+v", err, a.Trace)
	}
}

// TestSecondQuestionOfTheModel: the second question counts what the language model says of the passages where the
// calibration has asked it, and is not asked of another model.
func TestSecondQuestionOfTheModel(t *testing.T) {
	w := newHarbour(t)
	said := "Yes"
	w.Model.Reset("Coal [1].")
	w.Model.Top = func(r llm.Request) []llm.TokenLogProb {
		text := r.Messages[len(r.Messages)-1].Content
		passages, question, _ := strings.Cut(text, "Question: What does the ship ")
		name, _, _ := strings.Cut(question, " ")
		if said == "No" || !strings.Contains(passages, "The ship "+name+" lies") {
			return []llm.TokenLogProb{{Text: "No"}}
		}
		return []llm.TokenLogProb{{Text: "Yes"}}
	}
	calibrateHarbour(t, w, true)
	score := map[string]float64{}
	for _, said = range []string{"Yes", "No"} {
		a, err := w.ask(t, "What does the ship dabok carry to the island?", answer.DefaultOptions())
		if err != nil {
			t.Fatal(err)
		}
		s := a.Trace.Second
		if s == nil || s.Model == nil || (*s.Model > 0) != (said == "Yes") {
			t.Fatalf("%s: %+v", said, s)
		}
		score[said] = s.Score
	}
	if score["No"] >= score["Yes"] {
		t.Error(score)
	}
	w.Model.Digest = "another"
	a, err := w.ask(t, "What does the ship dabok carry to the island?", answer.DefaultOptions())
	if err != nil || a.Trace.Second != nil || a.Trace.Verdict != "" {
		t.Errorf("another model: %v, %+v", err, a.Trace.Second)
	}
}
