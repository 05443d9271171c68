package answer_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/flow"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

const (
	lamps  = "Why do lighthouses warn ships of rocks?"
	colour = "What colour do lighthouses warn ships of rocks with?" // nothing answers it
)

func newReader() *doubles.Extractor {
	return &doubles.Extractor{Answers: map[string]string{lamps: "rocks and shallow water"}}
}

// newWorldOf is newWorld with a reader.
func newWorldOf(t *testing.T, reader *doubles.Extractor) world {
	t.Helper()
	return newWorldWith(t, func(c *knowledge.Config) {
		c.Extractor = func(context.Context) (embed.Extractor, error) { return reader, nil }
	})
}

// TestReadersMarkTheAnswer: the sentence with the reader's span is quoted first, and the span is marked in it.
func TestReadersMarkTheAnswer(t *testing.T) {
	reader := newReader()
	w := newWorldOf(t, reader)
	a, err := w.ask(t, lamps, overlay.On(answer.DefaultOptions(), answer.Options{Gate: answer.GateOpen,
		Style: answer.Quote, Retrieve: retrieve.Options{Sentences: true}}))
	if err != nil {
		t.Fatal(err)
	}
	r := a.Trace.Read
	if r == nil || !r.Answers || r.Text != "rocks and shallow water" || r.Score != 4 || *r.Threshold != 0 ||
		r.Passage != 1 {
		t.Fatalf("%+v", r)
	}
	s := a.Citations[0].Sentence
	if s == nil || s.Answer == nil || s.Text[s.Answer.Start-s.Start:s.Answer.End-s.Start] != r.Text ||
		!strings.HasPrefix(a.Answer, s.Text) {
		t.Errorf("%q: %+v", a.Answer, s)
	}
	if a.Trace.Notice != "" || a.Trace.LLMCalls != 0 {
		t.Errorf("%+v", a.Trace)
	}
}

// TestReadersSayThatNothingAnswers: a quote says so, with Strict nothing is quoted, and a graph ends in "I don't know".
func TestReadersSayThatNothingAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		o       answer.Options
		outcome flow.Outcome
		notice  string
	}{
		"quote":  {answer.Options{}, flow.Answered, "the reader finds no answer in these passages"},
		"strict": {answer.Options{Strict: true}, flow.Unknown, "no answer held"},
		"graph": {answer.Options{Flow: answer.FlowGraph, FlowOptions: answer.FlowOptions{Grader: answer.ByReader}},
			flow.Unknown, "no answer held"},
		"paper": {answer.Options{Flow: answer.FlowPaper, FlowOptions: answer.FlowOptions{Grader: answer.ByReader}},
			flow.Unknown, "no answer held"},
	} {
		reader := newReader()
		w := newWorldOf(t, reader)
		reader.Asked.Store(0)
		w.Model.Answers = []string{"What is it?"} // of the node that puts the question in other words
		c.o.Gate, c.o.Style = answer.GateOpen, answer.Quote
		a, err := w.ask(t, colour, overlay.On(answer.DefaultOptions(), c.o))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if a.Trace.Outcome != c.outcome || !strings.Contains(a.Trace.Notice, c.notice) || a.Trace.Read.Answers {
			t.Errorf("%s: %s, %q, %+v", name, a.Trace.Outcome, a.Trace.Notice, a.Trace.Read)
		}
		if asked := reader.Asked.Load(); asked > 4 { // the base has four passages
			t.Errorf("%s: passages were read %d times", name, asked)
		}
	}
}

// TestReadersGradeAnswers: an answer that does not hold the span does not resolve the question.
func TestReadersGradeAnswers(t *testing.T) {
	o := overlay.On(answer.DefaultOptions(), answer.Options{Gate: answer.GateOpen, Flow: answer.FlowGraph,
		Style: answer.Write, FlowOptions: answer.FlowOptions{Grader: answer.ByReader}})
	for said, outcome := range map[string]flow.Outcome{
		"Lighthouses warn ships of rocks and shallow water [1].": flow.Answered,
		"Lighthouses warn ships with a rotating lamp [1].":       flow.Unknown,
	} {
		w := newWorldOf(t, newReader())
		w.Model.Answers = []string{said}
		a, err := w.ask(t, lamps, o)
		if err != nil || a.Trace.Outcome != outcome {
			t.Errorf("%s: %v, %+v", said, err, a)
		}
	}
}

// TestReadersBackAFewWords: what a model answers in a few words is backed where the reader finds the same.
func TestReadersBackAFewWords(t *testing.T) {
	const question, said = "Which ships keep what against plankton, herring and channels?", "Lamps that rotate"
	o := overlay.On(answer.DefaultOptions(), answer.Options{Gate: answer.GateOpen, Style: answer.Write})
	for found, want := range map[string]bool{"a rotating lamp": true, "rocks": false} {
		reader := newReader()
		reader.Answers[question] = found
		w := newWorldOf(t, reader)
		w.Model.Answers = []string{said}
		a, err := w.ask(t, question, o)
		if err != nil {
			t.Fatal(err)
		}
		if c := a.Trace.Checked; len(c) != 1 || c[0].Backed != want {
			t.Errorf("%q: %+v", found, c)
		}
	}
}

// TestReadersWithoutANullAnswerDoNotGrade: they mark spans, and are refused as graders.
func TestReadersWithoutANullAnswerDoNotGrade(t *testing.T) {
	reader := newReader()
	reader.NoNull = true
	w := newWorldOf(t, reader)
	o := overlay.On(answer.DefaultOptions(), answer.Options{Gate: answer.GateOpen, Style: answer.Quote})
	a, err := w.ask(t, lamps, o)
	if err != nil || !a.Trace.Read.Answers || a.Trace.Read.Threshold != nil {
		t.Fatalf("%v, %+v", err, a)
	}
	o.Flow = answer.FlowGraph // by embeddings, which drop all passages here
	if a, err := w.ask(t, lamps, o); err != nil || a.Trace.Read != nil {
		t.Errorf("%v, %+v", err, a.Trace.Read)
	}
	o.Grader = answer.ByReader
	_, err = w.ask(t, lamps, o)
	if !errors.Is(err, knowledge.ErrOption) || !strings.Contains(err.Error(), "SQuAD 1.1") {
		t.Errorf("%v", err)
	}
	plain := newWorld(t)
	if _, err := plain.ask(t, lamps, o); !errors.Is(err, knowledge.ErrOption) {
		t.Errorf("without a reader: %v", err)
	}
}
