package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/llm"
)

// aside makes an event with thinking in fields of its own.
func aside(fields ...string) string {
	return `{"choices":[{"index":0,"delta":{` + strings.Join(fields, ",") + `}}]}`
}

const thoughtUsage = `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":8,` +
	`"completion_tokens_details":{"reasoning_tokens":5}}}`

// TestThinking reads what servers make of thinking: a field of its own, or text between the marks of five families,
// which events cut anywhere.
func TestThinking(t *testing.T) {
	inContent := func(text string) []string {
		var events []string
		for i := range len(text) {
			events = append(events, delta(text[i:i+1]))
		}
		return events
	}
	for name, c := range map[string]struct {
		events          []string
		thought, answer string
		opened          bool
	}{
		"reasoning_content": {[]string{aside(`"reasoning_content":"Hm "`),
			aside(`"reasoning_content":"so."`, `"content":null`), delta("Yes."), delta(" No.")},
			"Hm so.", "Yes. No.", false},
		"reasoning": {[]string{aside(`"reasoning":"Hm so."`, `"content":""`), delta("Yes.")},
			"Hm so.", "Yes.", false},
		"both": {[]string{aside(`"reasoning":"Hm so."`, `"reasoning_content":"Hm so."`), delta("Yes.")},
			"Hm so.", "Yes.", false},
		"qwen3":     {inContent("<think>\nHm so.\n</think>\n\nYes."), "Hm so.", "Yes.", false},
		"granite":   {inContent("<think>Hm so.</think>\n<response>Yes.</response>"), "Hm so.", "Yes.", false},
		"magistral": {inContent("[THINK]Hm so.[/THINK]Yes."), "Hm so.", "Yes.", false},
		"harmony": {inContent("<|channel|>analysis<|message|>Hm so.<|end|>" +
			"<|start|>assistant<|channel|>final<|message|>Yes."), "Hm so.", "Yes.", false},
		"opened":     {inContent("Hm so.\n</think>\n\nYes."), "Hm so.", "Yes.", true},
		"not opened": {inContent("Hm so.</think>Yes."), "", "Hm so.</think>Yes.", false},
		"never ends": {inContent("<think>Hm so. </thin"), "Hm so. </thin", "", false},
		"field and marks": {[]string{aside(`"reasoning":"Hm so."`), delta("Use <think>"), delta("x</think>")},
			"Hm so.", "Use <think>x</think>", false},
	} {
		t.Run(name, func(t *testing.T) {
			events := append(append([]string{}, c.events...), ends("stop"), thoughtUsage)
			g := open(t, serve(t, sends(events...)), func(o *Options) { o.ThinkingOpened = c.opened })
			var thought, answer strings.Builder
			req := hello()
			req.Thinking.Stream = func(piece string) error { thought.WriteString(piece); return nil }
			r, err := g.Generate(t.Context(), req, func(piece string) error { answer.WriteString(piece); return nil })
			if err != nil || r.Thought != c.thought || r.Text != c.answer || r.ThoughtTokens != 5 {
				t.Errorf("%+v, %v", r, err)
			}
			if thought.String() != r.Thought || answer.String() != r.Text {
				t.Errorf("streams %q and %q", thought.String(), answer.String())
			}
			if llm.Thinks(g) != (c.thought != "") {
				t.Errorf("thinks: %v", llm.Thinks(g))
			}
		})
	}
}

// TestThinkingBesideOtherSettings: tools, a schema, probabilities and a broken stream.
func TestThinkingBesideOtherSettings(t *testing.T) {
	call := calls(`{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}`)
	req := hello()
	req.Tools = []llm.Tool{{Name: "f"}}
	r, err := open(t, serve(t, sends(delta("<think>Hm.</think>"), call, ends("tool_calls")))).
		Generate(t.Context(), req, nil)
	if err != nil || r.Thought != "Hm." || r.Text != "" || r.Finish != llm.FinishTools || len(r.ToolCalls) != 1 {
		t.Errorf("%+v, %v", r, err)
	}

	req = hello()
	req.Schema, req.LogProbs = json.RawMessage(`{"enum":["yes"]}`), true
	token := func(text string) string {
		return fmt.Sprintf(`{"choices":[{"delta":{"content":%q},"logprobs":{"content":[{"token":%q,"logprob":-1}]}}]}`,
			text, text)
	}
	r, err = open(t, serve(t, sends(token("<think>"), token("Hm."), token("</think>"), token(`yes`), ends("stop")))).
		Generate(t.Context(), req, nil)
	if err != nil || r.Text != "yes" || len(r.LogProbs) != 1 || r.LogProbs[0].Text != "yes" {
		t.Errorf("%+v, %v", r, err)
	}

	r, err = open(t, serve(t, raw("data: "+delta("<think>Hm")+"\n\n"))).Generate(t.Context(), hello(), nil)
	if !errors.Is(err, ErrIncomplete) || r.Thought != "Hm" || r.Text != "" {
		t.Errorf("%+v, %v", r, err)
	}
	failed := errors.New("gone")
	req = hello()
	req.Thinking.Stream = func(string) error { return failed }
	r, err = open(t, serve(t, says("stop", "<think>Hm</think>a"))).Generate(t.Context(), req, nil)
	if !errors.Is(err, failed) || r.Finish != llm.FinishCancelled {
		t.Errorf("%+v, %v", r, err)
	}
	r, err = open(t, serve(t, sends(`{"choices":[{"text":"<think>a</think>b"}]}`, ends("stop")))).
		Generate(t.Context(), llm.Request{Prompt: "Once", MaxTokens: 3}, nil)
	if err != nil || r.Text != "<think>a</think>b" || r.Thought != "" {
		t.Errorf("a raw prompt: %+v, %v", r, err)
	}
}

// TestEffortAsSent compares bodies with the servers' documentation. A server that refuses an effort is not sent it
// again.
func TestEffortAsSent(t *testing.T) {
	ask := func(e llm.Effort, budget int) llm.Request {
		req := hello()
		req.Thinking = llm.Thinking{Effort: e, Tokens: budget}
		return req
	}
	for _, c := range []struct {
		e    Extensions
		req  llm.Request
		want string
	}{
		{"", ask("", 0), `{"reasoning_effort":"none"}`},
		{"", ask(llm.HighEffort, 0), `{"reasoning_effort":"high"}`},
		{LlamaServer, ask(llm.LowEffort, 70),
			`{"chat_template_kwargs":{"enable_thinking":true,"thinking":true,"reasoning_effort":"low"},
			"thinking_budget_tokens":70}`},
		{VLLM, ask(llm.MinimalEffort, 70),
			`{"chat_template_kwargs":{"enable_thinking":true,"thinking":true,"reasoning_effort":"minimal"},
			"thinking_token_budget":70}`},
		{VLLM, ask("", 0), `{"chat_template_kwargs":{"enable_thinking":false,"thinking":false}}`},
	} {
		var want map[string]any
		if err := json.Unmarshal([]byte(c.want), &want); err != nil {
			t.Fatal(err)
		}
		body := sent(t, c.e, c.req).body
		for _, field := range []string{"reasoning_effort", "chat_template_kwargs", "thinking_budget_tokens",
			"thinking_token_budget"} {
			if diff := cmp.Diff(want[field], body[field]); diff != "" {
				t.Errorf("%q, %+v: %s: %s", c.e, c.req.Thinking, field, diff)
			}
		}
	}
	g := open(t, serve(t, says("stop", "a")))
	if _, err := g.Generate(t.Context(), ask(llm.LowEffort, 70), nil); !errors.Is(err, llm.ErrOptions) {
		t.Error("a budget that the server does not know:", err)
	}

	s := serve(t, status(400, `{"error":{"message":"Unrecognized request argument supplied: reasoning_effort"}}`),
		says("stop", "a"))
	g = open(t, s)
	for range 2 {
		if r, err := g.Generate(t.Context(), hello(), nil); err != nil || r.Text != "a" {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	all := s.all()
	if len(all) != 3 || all[0].body["reasoning_effort"] != "none" || all[1].body["reasoning_effort"] != nil ||
		all[2].body["reasoning_effort"] != nil {
		t.Errorf("%+v", all)
	}
	var e *APIError
	g = open(t, serve(t, status(400, `{"error":{"message":"reasoning is broken"}}`)))
	if _, err := g.Generate(t.Context(), hello(), nil); !errors.As(err, &e) {
		t.Error(err)
	}
}
