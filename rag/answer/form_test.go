package answer_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/flow"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/knowledge"
)

// caller is a language model that asks for a tool until it has seen the tool's result.
type caller struct {
	*doubles.Model
	requests []llm.Request
}

func (c *caller) Generate(_ context.Context, r llm.Request, _ func(string) error) (llm.Result, error) {
	c.requests = append(c.requests, r)
	if last := r.Messages[len(r.Messages)-1]; last.Role == llm.ToolRole {
		return llm.Result{Text: "By the register: " + last.Content + " [1] [9].", Finish: llm.FinishStop}, nil
	}
	call := llm.ToolCall{ID: "1", Name: "register", Arguments: `{}`}
	return llm.Result{Finish: llm.FinishTools, ToolCalls: []llm.ToolCall{call}}, nil
}

const (
	known   = "What does the ship dabok carry to the island?"
	unknown = "What does the ship Zzyzx carry to the island?"
)

// TestAnswersWithTools: tools go to the model with the passages, also where these do not answer; the second request has
// the call and its result behind the question.
func TestAnswersWithTools(t *testing.T) {
	w := newHarbour(t)
	for _, question := range []string{known, unknown} {
		c := &caller{Model: w.Model}
		ask := func(f answer.Form) *answer.Answer {
			t.Helper()
			a, err := answer.Run(t.Context(), w.Base.Base, answer.Input{Question: question,
				Options: overlay.On(answer.DefaultOptions(), answer.Options{Form: f}),
				Model:   func(context.Context) (llm.Generator, error) { return c, nil }})
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		tools := []llm.Tool{{Name: "register", Parameters: json.RawMessage(`{"type":"object"}`)}}
		a := ask(answer.Form{Tools: tools, ToolChoice: llm.ToolsRequired})
		if len(a.ToolCalls) != 1 || a.Answer != "" || a.Trace.Finish != llm.FinishTools || !a.Retrieved ||
			a.Trace.Outcome != flow.Answered {
			t.Fatalf("%s: %+v", question, a)
		}
		called := []llm.Message{{Role: llm.Assistant, ToolCalls: a.ToolCalls},
			{Role: llm.ToolRole, ToolCallID: "1", Content: "coal"}}
		a = ask(answer.Form{Tools: tools, Called: called})
		if a.Answer != "By the register: coal [1]." || len(a.ToolCalls) != 0 || a.Trace.RemovedCitations != 1 {
			t.Errorf("%s: %q, %+v", question, a.Answer, a.Trace)
		}
		first, second := c.requests[0], c.requests[1]
		if len(first.Tools) != 1 || first.ToolChoice != llm.ToolsRequired ||
			!strings.Contains(first.Messages[len(first.Messages)-1].Content, "harbour") ||
			len(second.Messages) != len(first.Messages)+2 {
			t.Errorf("%s: %+v, then %+v", question, first, second)
		}
	}
}

// TestAnswersAsJSON: brackets in JSON are no citations, nothing is added to it, and where the passages do not answer,
// there is no answer instead of a quote.
func TestAnswersAsJSON(t *testing.T) {
	w := newHarbour(t)
	form := answer.Form{Schema: json.RawMessage(`{"type":"object"}`), Stop: []string{"END"}}
	w.Model.Reset(`{"crates":[7, 1]}`)
	a, err := w.ask(t, known, overlay.On(answer.DefaultOptions(), answer.Options{Form: form}))
	if err != nil || a.Answer != `{"crates":[7, 1]}` || a.Trace.Verdict != gate.Answers || len(a.Citations) == 0 ||
		a.Trace.Checked != nil || a.Trace.StyleReason == "" {
		t.Errorf("%v, %q, %+v", err, a.Answer, a.Trace)
	}
	if r := w.Model.Requests()[0]; string(r.Schema) != string(form.Schema) || !slices.Contains(r.Stop, "END") {
		t.Errorf("%+v", r)
	}
	a, err = w.ask(t, unknown, overlay.On(answer.DefaultOptions(), answer.Options{Form: form}))
	if err != nil || a.Answer != answer.IDontKnow || a.Trace.Outcome != flow.Unknown || len(a.Nearest) == 0 {
		t.Errorf("%v, %q, %+v", err, a.Answer, a.Trace)
	}
	a, err = w.ask(t, known, overlay.On(answer.DefaultOptions(),
		answer.Options{Style: answer.Quote, Form: answer.Form{Stop: []string{"to the island", "dabok"}}}))
	if err != nil || strings.Contains(a.Answer, "dabok") || !strings.HasSuffix(a.Answer, "The ship ") {
		t.Errorf("a quote until a stop string: %v, %q", err, a.Answer)
	}
}

func TestFormsThatContradict(t *testing.T) {
	w := newHarbour(t)
	schema, tools := answer.Form{Schema: json.RawMessage(`{}`)}, answer.Form{Tools: []llm.Tool{{Name: "a"}}}
	for name, o := range map[string]answer.Options{
		"a quote as JSON":    {Style: answer.Quote, Form: schema},
		"a quote with tools": {Style: answer.Quote, Form: tools},
		"a graph with tools": {Flow: answer.FlowGraph, Form: tools},
		"a text with tools":  {Template: "marked", Gate: answer.GateOpen, Form: tools},
	} {
		if _, err := w.ask(t, known, overlay.On(answer.DefaultOptions(), o)); !errors.Is(err, knowledge.ErrOption) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
