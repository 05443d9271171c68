package answer_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// TestQuotesCallNoModel: the answer is sentences of the passages as they stand, cited, and streamed; the language model
// is not asked.
func TestQuotesCallNoModel(t *testing.T) {
	w := newWorld(t)
	streamed := ""
	a, err := w.ask(t, "What do lighthouses warn of?", overlay.On(answer.DefaultOptions(),
		answer.Options{Gate: answer.GateOpen, Style: answer.Quote,
			Retrieve: retrieve.Options{Sentences: true},
			Stream:   func(piece string) error { streamed += piece; return nil }}))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(w.Model.Requests()); n > 0 || a.Trace.LLMCalls > 0 || a.Trace.Style != answer.Quote || !a.Retrieved {
		t.Errorf("%d requests, trace %+v", n, a.Trace)
	}
	const want = "Lighthouses warn ships of rocks and shallow water with a rotating lamp. [1]"
	if a.Answer != streamed || !strings.HasPrefix(a.Answer, want) {
		t.Errorf("%q was streamed, the answer is %q", streamed, a.Answer)
	}
	cited := 0
	for _, c := range a.Citations {
		if !c.Cited {
			continue
		}
		cited++
		s := c.Sentence
		if s == nil || !strings.Contains(a.Answer, s.Text) || !strings.Contains(doubles.Contexts, s.Text) {
			t.Errorf("%+v does not stand in a passage and in %q", s, a.Answer)
		}
	}
	if cited != strings.Count(a.Answer, " [") {
		t.Errorf("%d citations of %q", cited, a.Answer)
	}
}

// TestGraphsQuote: where a graph would have the model write, it quotes; its graders stay.
func TestGraphsQuote(t *testing.T) {
	w := newWorld(t)
	w.Model.Answers = []string{`{"relevant":"yes"}`, `{"grounded":"yes"}`, `{"resolves":"yes"}`}
	a, err := w.ask(t, "Why do lighthouses warn ships of rocks?",
		overlay.On(answer.DefaultOptions(), answer.Options{Gate: answer.GateOpen,
			Flow: answer.FlowGraph, FlowOptions: answer.FlowOptions{Grader: answer.ByLLM}, Style: answer.Quote}))
	if err != nil || a.Trace.Style != answer.Quote || a.Trace.LLMCalls != 3 || !strings.Contains(a.Answer, "rocks") {
		t.Errorf("%v, %+v", err, a)
	}
}

// TestWithoutPassagesTheModelWrites: the trace says who made the answer.
func TestWithoutPassagesTheModelWrites(t *testing.T) {
	w := newWorld(t)
	w.Model.Answers = []string{"Because."}
	a, err := w.ask(t, "Why?", overlay.On(answer.DefaultOptions(),
		answer.Options{Gate: answer.GateClosed, Style: answer.Quote}))
	if err != nil || a.Trace.Style != answer.Write || a.Answer != "Because." {
		t.Errorf("%v, %+v", err, a)
	}
	if _, err := w.ask(t, "Why?", overlay.On(answer.DefaultOptions(),
		answer.Options{Style: "sing"})); !errors.Is(err, knowledge.ErrOption) {
		t.Errorf("a style that there is not: %v", err)
	}
}
