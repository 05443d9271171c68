package openai

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/llm"
)

// refused checks the error shown to a client.
func refused(t *testing.T, body []byte, e *Error) {
	t.Helper()
	if e.Code == "" || e.Param == "" || e.Message == "" || !utf8.ValidString(e.Message) ||
		len(e.Message) > 4096+len(body) {
		t.Errorf("%q: %+v", body, e)
	}
}

// meaningful checks an accepted request: the language model may refuse only its grammars and tools.
func meaningful(t *testing.T, body []byte, r llm.Request) {
	t.Helper()
	switch {
	case (len(r.Messages) > 0) == (r.Prompt != ""), r.MaxTokens < 1,
		!(r.Temperature >= 0 && r.Temperature <= 2), !(r.TopP >= 0 && r.TopP <= 1), !(r.MinP >= 0 && r.MinP <= 1),
		r.TopK < 0, r.Seed < -1 || r.Seed >= seeds, !(r.RepeatPenalty >= 0 && r.RepeatPenalty <= 100),
		r.Alternatives > 0 && !r.LogProbs, r.Alternatives < 0 || r.Alternatives > 20,
		len(r.Schema) > 0 && !json.Valid(r.Schema):
		t.Errorf("%q: %+v", body, r)
	}
	for _, s := range r.Stop {
		if s == "" || strings.Contains(s, "\x00") {
			t.Errorf("%q: stop %q", body, s)
		}
	}
}

func FuzzChatRequest(f *testing.F) {
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":"Hi"}],"stop":["a"],"seed":-1,"top_p":0}`))
	f.Add([]byte(`{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"1","function":{"name":"f"}}]},` +
		`{"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"x"}]}],"tools":[{"type":"function",` +
		`"function":{"name":"f","parameters":{}}}],"tool_choice":{"type":"function","function":{"name":"f"}}}`))
	f.Add([]byte(`{"messages":[{"role":"user","content":[{"type":"image_url"}]}],"response_format":{"type":"json_schema",` +
		`"json_schema":{"name":"n","schema":{}}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var r ChatRequest
		if strictly(body, &r) != nil || CheckNumbers(&r) != nil {
			return
		}
		got, err := r.Request(limits)
		if err != nil {
			refused(t, body, err)
			return
		}
		meaningful(t, body, got)
		if err := got.CheckTools(); err != nil && !strings.Contains(err.Error(), "schema") {
			t.Errorf("%q: %v", body, err)
		}
	})
}

func FuzzCompletionRequest(f *testing.F) {
	f.Add([]byte(`{"prompt":["Once"],"logprobs":2,"max_tokens":3,"suffix":"","logit_bias":{}}`))
	f.Add([]byte(`{"prompt":[[1,2]]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var r CompletionRequest
		if strictly(body, &r) != nil || CheckNumbers(&r) != nil {
			return
		}
		got, err := r.Request(limits)
		prompts, wrong := r.Prompts(limits)
		if err == nil {
			err = wrong
		}
		if err != nil {
			refused(t, body, err)
			return
		}
		if n := len(prompts) * r.Choices(); n < 1 || n > limits.Choices {
			t.Errorf("%q: %d completions", body, n)
		}
		if got.Prompt = prompts[0].Text; prompts[0].Tokens != nil {
			got.Prompt = "what they spell"
		}
		meaningful(t, body, got)
	})
}

func FuzzTexts(f *testing.F) {
	f.Add([]byte(`{"input":["a","b"],"query":"q","documents":[{"text":"x"},"y"],"top_n":1}`))
	f.Add([]byte(`{"input":[[1]],"documents":[{"text":null}],"rank_fields":["text"],"content":"x","prompt":"y"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var embedding EmbeddingRequest
		var rerank RerankRequest
		var classify ClassifyRequest
		var tokens TokenizeRequest
		check := func(list []string, err *Error) {
			switch {
			case err != nil:
				refused(t, body, err)
			case len(list) == 0 || len(list) > limits.Texts:
				t.Errorf("%q: %d texts", body, len(list))
			}
		}
		if json.Unmarshal(body, &embedding) == nil {
			list, err := embedding.Inputs(limits)
			check(make([]string, len(list)), err)
			for _, one := range list {
				if err == nil && (one.Text == "") == (len(one.Tokens) == 0) {
					t.Errorf("%q: an input of %q and %v", body, one.Text, one.Tokens)
				}
			}
		}
		if json.Unmarshal(body, &rerank) == nil {
			check(rerank.Texts(limits))
		}
		if json.Unmarshal(body, &classify) == nil {
			check(classify.Texts(limits))
		}
		if json.Unmarshal(body, &tokens) == nil {
			if _, err := tokens.Text(); err != nil {
				refused(t, body, err)
			}
		}
	})
}
