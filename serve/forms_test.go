package serve

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/serve/openai"
)

// formsWorld has a language model that writes what the request's form asks for, and the requests that it was sent.
func formsWorld(t *testing.T) (*world, func() []llm.Request) {
	var mu sync.Mutex
	var all []llm.Request
	w := worldOf(t, func(_ context.Context, r llm.Request, stream func(string) error) (llm.Result, error) {
		mu.Lock()
		all = append(all, r)
		mu.Unlock()
		out := llm.Result{Text: fmt.Sprintf("Seed %d [1].", r.Seed), PromptTokens: 7, CompletionTokens: 3}
		switch {
		case len(r.Schema) > 0:
			out.Text = `{"rows":[1, 9]}`
		case r.Grammar != "": // verdicts of graders
			out.Text = `{"relevant":"no"}`
		case len(r.Tools) > 0 && r.Messages[len(r.Messages)-1].Role == llm.User:
			out.Text, out.Finish = "", llm.FinishTools
			out.ToolCalls = []llm.ToolCall{{ID: "a", Name: "tide", Arguments: `{"at":3}`},
				{ID: "b", Name: "tide", Arguments: `{}`}}
		}
		if stream != nil && out.Text != "" {
			return out, stream(out.Text)
		}
		return out, nil
	})
	return w, func() []llm.Request {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

const tideTool = `"tools":[{"type":"function","function":{"name":"tide","parameters":{"type":"object"}}}]`

// TestFormsOfAnswersFromBases checks stop, n, response_format and tools of answers from a knowledge base, whole and as
// streams.
func TestFormsOfAnswersFromBases(t *testing.T) {
	w, requests := formsWorld(t)
	ask := func(more string) (openai.ChatCompletion, []openai.ChatChunk) {
		t.Helper()
		body := `{"model":"sluice/sea","sluice":{"gate":"open"},"messages":[{"role":"user","content":"` + inScope + `"}` +
			more
		status, answer := do(t, w, post("/v1/chat/completions", body+`}`))
		if status != 200 {
			t.Fatal(status, answer)
		}
		status, stream := do(t, w, post("/v1/chat/completions", body+`,"stream":true}`))
		if status != 200 {
			t.Fatal(status, stream)
		}
		return as[openai.ChatCompletion](t, answer), chunks(t, stream)
	}
	whole, stream := ask(`],"stop":["END"],"n":3,"seed":5`)
	texts := make([]string, 3)
	for _, c := range stream {
		if x := c.Choices[0]; x.Delta.Content != nil {
			texts[x.Index] += *x.Delta.Content
		}
	}
	for i, c := range whole.Choices {
		want := fmt.Sprintf("Seed %d [1].", 5+i)
		if c.Index != i || *c.Message.Content != want || texts[i] != want || len(c.Message.Annotations) != 1 {
			t.Errorf("choice %d: %+v; stream %q", i, c, texts[i])
		}
	}
	if len(whole.Choices) != 3 || whole.Usage.CompletionTokens != 9 || whole.Usage.PromptTokens != 7 {
		t.Errorf("%+v", whole)
	}
	if stop := requests()[0].Stop; !slices.Contains(stop, "END") {
		t.Error(stop)
	}

	whole, stream = ask(`],"response_format":{"type":"json_object"}`)
	text := ""
	for _, c := range stream {
		if x := c.Choices[0]; x.Delta.Content != nil {
			text += *x.Delta.Content
		}
	}
	if *whole.Choices[0].Message.Content != `{"rows":[1, 9]}` || text != `{"rows":[1, 9]}` {
		t.Errorf("%+v, %q", whole, text)
	}

	whole, stream = ask(`],"parallel_tool_calls":false,` + tideTool)
	c := whole.Choices[0]
	if c.FinishReason != "tool_calls" || len(c.Message.ToolCalls) != 1 || c.Message.Content != nil ||
		c.Message.ToolCalls[0].Function.Arguments != `{"at":3}` {
		t.Errorf("%+v", c)
	}
	var calls []openai.ToolCall
	for _, c := range stream {
		calls = append(calls, c.Choices[0].Delta.ToolCalls...)
	}
	if len(calls) != 2 || calls[0].Function.Name != "tide" || calls[1].Function.Arguments != `{"at":3}` ||
		*stream[len(stream)-1].Choices[0].FinishReason != "tool_calls" {
		t.Errorf("%+v", calls)
	}
	whole, _ = ask(`,{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"tide",` +
		`"arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"high"}],` + tideTool)
	if all := requests(); *whole.Choices[0].Message.Content != "Seed 0 [1]." ||
		all[len(all)-1].Messages[len(all[len(all)-1].Messages)-1].Content != "high" {
		t.Errorf("%+v", whole)
	}
}

// TestRefusals: where a graph finds no answer, a program that asked for JSON gets a refusal instead of a sentence in
// its place, and may send that back.
func TestRefusals(t *testing.T) {
	w, _ := formsWorld(t)
	const form = `"response_format":{"type":"json_object"},"sluice":{"flow":"graph-llm","gate":"open"}`
	body := `{"model":"sluice/sea",` + form + `,"messages":[{"role":"user","content":"` + inScope + `"}]`
	status, answer := do(t, w, post("/v1/chat/completions", body+`}`))
	said := as[openai.ChatCompletion](t, answer).Choices[0].Message
	if status != 200 || said.Content != nil || said.Refusal == nil || *said.Refusal != "I don't know." {
		t.Fatal(status, answer)
	}
	_, stream := do(t, w, post("/v1/chat/completions", body+`,"stream":true}`))
	refusal := ""
	for _, c := range chunks(t, stream) {
		d := c.Choices[0].Delta
		if d.Content != nil && *d.Content != "" {
			t.Errorf("content %q", *d.Content)
		}
		if d.Refusal != nil {
			refusal += *d.Refusal
		}
	}
	if refusal != "I don't know." {
		t.Error(stream)
	}
	status, answer = do(t, w, post("/v1/chat/completions", `{"model":"sluice/sea","messages":[`+
		`{"role":"user","content":"a"},{"role":"assistant","content":null,"refusal":"I don't know."},`+
		`{"role":"user","content":"`+inScope+`"}]}`))
	if status != 200 {
		t.Error(status, answer)
	}
	body = `{"model":"sluice/sea","input":"` + inScope + `","text":{"format":{"type":"json_object"}},` +
		`"sluice":{"flow":"graph-llm","gate":"open"}`
	status, answer = do(t, w, post("/v1/responses", body+`}`))
	out := as[responseBody](t, answer)
	if part := out.Output[len(out.Output)-1].Content[0]; status != 200 || part.Type != "refusal" ||
		part.Refusal != "I don't know." {
		t.Error(status, answer)
	}
	_, answer = do(t, w, post("/v1/responses", body+`,"stream":true}`))
	for _, event := range []string{"response.refusal.delta", "response.refusal.done"} {
		if strings.Count(answer, "event: "+event+"\n") != 1 {
			t.Errorf("%s in %s", event, answer)
		}
	}
	if strings.Contains(answer, "output_text") {
		t.Error(answer)
	}
}
