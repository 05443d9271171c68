package remote

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/llm"
)

// calls makes an event of a part of a call.
func calls(part string) string { return `{"choices":[{"delta":{"tool_calls":[` + part + `]}}]}` }

func ends(reason string) string { return `{"choices":[{"delta":{},"finish_reason":"` + reason + `"}]}` }

// TestToolsAsSent compares a body with OpenAI's API reference.
func TestToolsAsSent(t *testing.T) {
	req := llm.Request{ToolChoice: "weather", Tools: []llm.Tool{
		{Name: "weather", Description: "d", Parameters: json.RawMessage(`{"type":"object"}`)}, {Name: "now"}},
		Messages: []llm.Message{{Role: llm.User, Content: "Hi"},
			{Role: llm.Assistant, ToolCalls: []llm.ToolCall{{ID: "c1", Name: "weather", Arguments: `{"a":1}`}}},
			{Role: llm.ToolRole, Content: "sun", ToolCallID: "c1"}}}
	const want = `{"tools":[{"type":"function","function":{"name":"weather","description":"d","parameters":{"type":"object"}}},
		{"type":"function","function":{"name":"now"}}],"tool_choice":{"type":"function","function":{"name":"weather"}},
		"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"c1",
		"type":"function","function":{"name":"weather","arguments":"{\"a\":1}"}}]},
		{"role":"tool","content":"sun","tool_call_id":"c1"}]}`
	var parts map[string]any
	if err := json.Unmarshal([]byte(want), &parts); err != nil {
		t.Fatal(err)
	}
	got := sent(t, "", req)
	for name, part := range parts {
		if diff := cmp.Diff(part, got.body[name]); diff != "" {
			t.Error(name, diff)
		}
	}
	req.ToolChoice = ""
	if got := sent(t, "", req); got.body["tool_choice"] != "auto" {
		t.Error(got.body["tool_choice"])
	}
}

// TestToolCalls: calls come in parts, or whole without numbers.
func TestToolCalls(t *testing.T) {
	two := []llm.ToolCall{{ID: "a", Name: "f", Arguments: `{"x": 1}`}, {ID: "b", Name: "g", Arguments: "{}"}}
	req := hello()
	req.Tools = []llm.Tool{{Name: "f"}, {Name: "g"}}
	for name, c := range map[string]struct {
		events []string
		text   string
		calls  []llm.ToolCall
		finish llm.FinishReason
		err    error
	}{
		"parts": {[]string{delta("So."),
			calls(`{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}`),
			calls(`{"index":0,"function":{"arguments":"{\"x\""}}`),
			calls(`{"index":0,"function":{"arguments":": 1}"}}`),
			calls(`{"index":1,"id":"b","function":{"name":"g"}}`), ends("tool_calls")}, "So.", two, llm.FinishTools,
			nil},
		"whole": {[]string{calls(`{"id":"a","function":{"name":"f","arguments":"{\"x\": 1}"}},` +
			`{"id":"b","function":{"name":"g","arguments":"{}"}}`), ends("stop")}, "", two, llm.FinishTools, nil},
		"cut": {[]string{calls(`{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}`), ends("length")}, "",
			nil,
			llm.FinishContext, nil},
		"no JSON": {[]string{calls(`{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}`), ends("tool_calls")},
			"",
			nil, "", ErrResponse},
		"no name": {[]string{calls(`{"index":0,"id":"a","function":{}}`), ends("tool_calls")}, "", nil, "",
			ErrResponse},
		"gap":      {[]string{calls(`{"index":7,"id":"a"}`)}, "", nil, "", ErrResponse},
		"negative": {[]string{calls(`{"index":-1,"id":"a"}`)}, "", nil, "", ErrResponse},
	} {
		t.Run(name, func(t *testing.T) {
			g := open(t, serve(t, sends(c.events...)))
			res, err := g.Generate(t.Context(), req, nil)
			if !errors.Is(err, c.err) || res.Text != c.text || !cmp.Equal(res.ToolCalls, c.calls) ||
				res.Finish != c.finish {
				t.Errorf("%+v, %v", res, err)
			}
		})
	}
}
