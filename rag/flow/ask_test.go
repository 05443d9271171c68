package flow_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/flow"
)

func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		method flow.Method
		said   string
		want   flow.Verdict
	}{
		{flow.Grammar, `{"relevant":"no"}`, "no"},
		{"", `{"relevant": "yes"}`, "yes"},
		{flow.Grammar, `{"relevant": "ye`, ""}, // cut
		{flow.Parse, `{"relevant": "YES"}`, "yes"},
		{flow.Parse, "Sure! ```json\n{\"relevant\": \"no\"}\n```", "no"},
		{flow.Parse, `{"other": "yes"} {"relevant": "no"}`, "no"},
		{flow.Parse, "No.", "no"},
		{flow.Parse, "It is unknown, now.", ""},
		{flow.Parse, "yes or no", ""},
		{flow.Parse, `{"relevant": true}`, ""},
	} {
		m := doubles.NewModel(c.said)
		said, err := flow.Ask(t.Context(), m,
			flow.Question{Messages: []llm.Message{{Role: llm.User, Content: "Is it?"}},
				Key: "relevant", Values: []flow.Verdict{"yes", "no"}, Method: c.method})
		if err != nil || said.Verdict != c.want || said.Text != c.said {
			t.Errorf("%s %q: %+v, %v", c.method, c.said, said, err)
		}
		r := m.Requests()[0]
		asks := strings.Contains(r.Messages[0].Content, `the single key "relevant" with the value "yes" or "no"`)
		if forced := len(r.Schema) > 0; forced == (c.method == flow.Parse) || asks == forced || r.MaxTokens == 0 {
			t.Errorf("%s: %+v", c.method, r)
		}
	}
}

// caller is a model that calls the first tool.
type caller struct{ *doubles.Model }

func (c caller) Generate(ctx context.Context, r llm.Request, s func(string) error) (llm.Result, error) {
	_, err := c.Model.Generate(ctx, r, s)
	return llm.Result{Finish: llm.FinishTools, ToolCalls: []llm.ToolCall{{Name: r.Tools[0].Name,
		Arguments: `{"relevant":"no"}`}}}, err
}

func TestVerdictByToolCall(t *testing.T) {
	m := caller{doubles.NewModel("")}
	said, err := flow.Ask(t.Context(), m, flow.Question{Messages: []llm.Message{{Role: llm.User, Content: "Is it?"}},
		Key: "relevant", Values: []flow.Verdict{"yes", "no"}, Method: flow.Tool})
	r := m.Requests()[0]
	if err != nil || said.Verdict != "no" || r.ToolChoice != r.Tools[0].Name || !json.Valid(r.Tools[0].Parameters) ||
		r.CheckTools() != nil {
		t.Errorf("%+v, %v, %+v", said, err, r)
	}
	if _, err := flow.Ask(t.Context(), m, flow.Question{Method: "guess"}); err == nil {
		t.Error("an unknown method")
	}
}

// scored is a model with log-probabilities.
type scored struct{ *doubles.Model }

func (s scored) Generate(context.Context, llm.Request, func(string) error) (llm.Result, error) {
	return llm.Result{Text: `{"grounded": "no"}`, LogProbs: []llm.TokenLogProb{{Text: `{"grounded": "`}, {Text: "no",
		Top: []llm.TokenLogProb{{Text: "no", LogProb: -1}, {Text: "yes", LogProb: -1}}}}}, nil
}

func TestVerdictWithProbability(t *testing.T) {
	said, err := flow.Ask(t.Context(), scored{doubles.NewModel("")}, flow.Question{Key: "grounded",
		Values: []flow.Verdict{"yes", "no"}, Score: true})
	if err != nil || said.Verdict != "no" || said.Probability["no"] != .5 || said.Probability["yes"] != .5 {
		t.Errorf("%+v, %v", said, err)
	}
}
