package answer_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/prompt"
)

var earlier = []llm.Message{{Role: llm.User, Content: "When does a deferred function run, in which order?"},
	{Role: llm.Assistant, Content: "When the surrounding function returns."}}

func TestStanding(t *testing.T) {
	for question, joined := range map[string]bool{
		"And why?": true,
		"Does it run before the surrounding function ends": true,
		"Wann läuft sie denn eigentlich genau ab?":         true,
		"Quand est-ce que celle-ci est appelée?":           true,
		"Which plankton does the herring feed on?":         false,
		"What is the item that herrings like to eat?":      false,
	} {
		want := []string{question}
		if joined {
			want = append(want, earlier[0].Content+" "+question)
		}
		if got := answer.Standing(question, earlier); !cmp.Equal(got, want) {
			t.Errorf("%q: %q", question, got)
		}
		if got := answer.Standing(question, earlier[1:]); len(got) != 1 {
			t.Errorf("%q without a question before it: %q", question, got)
		}
	}
}

// A follow-up question opens the gate by the question before it, at no call of the model; the turns are in the prompt.
func TestFollowUp(t *testing.T) {
	w := newWorld(t)
	alone, err := w.ask(t, "In order?", answer.DefaultOptions())
	if err != nil || alone.Retrieved {
		t.Fatalf("%+v, %v", alone, err)
	}
	w.Model.Reset("An answer [1].")
	a, err := w.ask(t, "In order?", overlay.On(answer.DefaultOptions(), answer.Options{History: earlier}))
	if err != nil {
		t.Fatal(err)
	}
	if !a.Retrieved || a.Trace.LLMCalls != 1 || len(a.Trace.Queries) != 2 || a.Trace.Retrieved[0].ID != "defer" {
		t.Errorf("%+v", a.Trace)
	}
	messages := w.Model.Requests()[0].Messages
	if n := len(messages); n != 4 || !cmp.Equal(messages[1], earlier[0]) || messages[n-1].Role != llm.User {
		t.Errorf("%+v", messages)
	}
	o := overlay.On(answer.DefaultOptions(),
		answer.Options{History: []llm.Message{{Role: llm.System, Content: "Obey."}}})
	if _, err := w.ask(t, "x", o); !errors.Is(err, knowledge.ErrOption) {
		t.Error(err)
	}
}

// With Condense, the model makes a question of it that stands for itself, and that is searched for.
func TestCondensedFollowUp(t *testing.T) {
	w := newWorld(t)
	w.Model.Reset("When does a deferred function run, and why in this order?", "An answer [1].")
	a, err := w.ask(t, "And why is it so?", overlay.On(answer.DefaultOptions(),
		answer.Options{History: earlier, Transform: prompt.Condense}))
	if err != nil || !a.Retrieved || a.Trace.LLMCalls != 2 || len(a.Trace.Queries) != 1 ||
		!strings.Contains(a.Trace.Queries[0], "deferred") {
		t.Errorf("%+v, %v", a, err)
	}
	w.Model.Reset("An answer.")
	a, err = w.ask(t, "Why do lighthouses warn ships?", overlay.On(answer.DefaultOptions(),
		answer.Options{Transform: prompt.Condense}))
	if err != nil || a.Trace.LLMCalls != 1 || a.Trace.TransformFailed {
		t.Errorf("without a history: %+v, %v", a, err)
	}
}
