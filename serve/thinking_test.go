package serve

import (
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/serve/openai"
)

// TestThinking checks reasoning_content in answers of the language model alone and from a knowledge base, whole and as
// streams, and that a client can switch it off.
func TestThinking(t *testing.T) {
	w := newWorld(t, nil)
	w.model.Thought = "Hm, so be it."
	for _, c := range []struct {
		name, body string
		thinks     bool
	}{
		{"model", `"model":"default"`, true},
		{"model, off", `"model":"default","reasoning_effort":"none"`, false},
		{"base", `"model":"sluice/sea","sluice":{"gate":"open"}`, true},
		{"base, off", `"model":"sluice/sea","chat_template_kwargs":{"enable_thinking":false},"sluice":{"gate":"open"}`,
			false},
	} {
		t.Run(c.name, func(t *testing.T) {
			want, tokens := "", 0
			if c.thinks {
				want, tokens = w.model.Thought, 4
			}
			request := `{` + c.body + `,"messages":[{"role":"user","content":"` + inScope + `"}]`
			status, body := do(t, w, post("/v1/chat/completions", request+`}`))
			if status != 200 {
				t.Fatal(status, body)
			}
			a := as[openai.ChatCompletion](t, body)
			said := a.Choices[0].Message
			if said.Reasoning != want || *said.Content != "An answer [1]." ||
				a.Usage.CompletionDetails.ReasoningTokens != tokens || a.Usage.CompletionTokens != 3+tokens {
				t.Errorf("%s", body)
			}
			if strings.Contains(body, "reasoning_content") != c.thinks {
				t.Errorf("an empty field: %s", body)
			}
			_, body = do(t, w, post("/v1/chat/completions",
				request+`,"stream":true,"stream_options":{"include_usage":true}}`))
			var thought, text strings.Builder
			list := chunks(t, body)
			for _, k := range list {
				for _, choice := range k.Choices {
					if choice.Delta.Reasoning != "" && text.Len() > 0 {
						t.Error("thinking after the answer has begun")
					}
					thought.WriteString(choice.Delta.Reasoning)
					if choice.Delta.Content != nil {
						text.WriteString(*choice.Delta.Content)
					}
				}
			}
			if list[0].Choices[0].Delta.Role != "assistant" || thought.String() != want ||
				text.String() != "An answer [1]." ||
				list[len(list)-1].Usage.CompletionDetails.ReasoningTokens != tokens {
				t.Errorf("%s", body)
			}
		})
	}
	for _, r := range w.model.Requests() {
		if r.Thinking.On() && r.Thinking.Effort != llm.LowEffort {
			t.Errorf("%+v", r.Thinking)
		}
	}
	for body, param := range map[string]string{
		`"reasoning_effort":"huge"`: "reasoning_effort", `"thinking_budget":-1`: "thinking_budget",
		`"chat_template_kwargs":{"enable_thinking":"no"}`: "chat_template_kwargs",
	} {
		status, answer := do(t, w, post("/v1/chat/completions",
			`{"model":"default","messages":[{"role":"user","content":"a"}],`+body+`}`))
		if e := failure(t, answer); status != 400 || e.Param != param {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
}
