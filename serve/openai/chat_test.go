package openai

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/llm"
)

var limits = Limits{Messages: 8, Texts: 4, Tools: 2, MaxTokens: 100, Choices: 5}

// strictly decodes a body as the server does.
func strictly(body []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

func chat(t *testing.T, body string) (llm.Request, *Error) {
	t.Helper()
	var r ChatRequest
	if err := strictly([]byte(body), &r); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	if err := CheckNumbers(&r); err != nil {
		return llm.Request{}, err
	}
	return r.Request(limits)
}

func TestChatRequest(t *testing.T) {
	const schema = `{"type":"object","properties":{"a":{"type":"integer"}}}`
	for name, c := range map[string]struct {
		body string
		want llm.Request
	}{
		"defaults": {`{"model":"m","messages":[{"role":"user","content":"Hi"}]}`,
			llm.Request{Messages: []llm.Message{{Role: llm.User, Content: "Hi"}}}},
		"roles and parts": {`{"messages":[{"role":"developer","content":"Be brief."},
			{"role":"user","name":"Ann","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
			{"role":"assistant","content":[{"type":"refusal","refusal":"no"}],"refusal":null,"annotations":[]},
			{"role":"user","content":""}]}`,
			llm.Request{Messages: []llm.Message{{Role: llm.System, Content: "Be brief."},
				{Role: llm.User, Content: "ab"}, {Role: llm.Assistant, Content: "no"}, {Role: llm.User}}}},
		"settings": {`{"messages":[{"role":"user","content":"x"}],"max_completion_tokens":5,"temperature":0.5,"top_p":0.25,
			"top_k":3,"min_p":0.1,"repetition_penalty":1.5,"presence_penalty":-2,"frequency_penalty":2,"seed":7,
			"stop":["a","b"],"n":1,"logprobs":true,"top_logprobs":2,"stream":true,
			"stream_options":{"include_usage":true},
			"user":"u","metadata":{"a":"b"},"store":false,"service_tier":"auto","modalities":["text"],
			"reasoning_effort":"low","thinking_budget":70,"logit_bias":{},"parallel_tool_calls":true}`,
			llm.Request{Messages: []llm.Message{{Role: llm.User, Content: "x"}}, MaxTokens: 5, Temperature: .5,
				TopP: .25, TopK: 3, MinP: .1, RepeatPenalty: 1.5, PresencePenalty: -2, FrequencyPenalty: 2, Seed: 7,
				Stop: []string{"a", "b"}, LogProbs: true, Alternatives: 2,
				Thinking: llm.Thinking{Effort: llm.LowEffort, Tokens: 70}}},
		"no thinking": {`{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y",
			"reasoning_content":"z"},{"role":"user","content":"x"}],"chat_template_kwargs":{"enable_thinking":false}}`,
			llm.Request{Messages: []llm.Message{{Role: llm.User, Content: "x"}, {Role: llm.Assistant, Content: "y"},
				{Role: llm.User, Content: "x"}}, Thinking: llm.Thinking{Effort: llm.NoEffort}}},
		"thinking": {`{"messages":[{"role":"user","content":"x"}],"reasoning_effort":"none",
			"chat_template_kwargs":{"thinking":true,"other":1}}`,
			llm.Request{Messages: []llm.Message{{Role: llm.User, Content: "x"}},
				Thinking: llm.Thinking{Effort: llm.MediumEffort}}},
		"nulls": {`{"messages":[{"role":"user","content":"x","tool_calls":null}],"max_tokens":null,"temperature":null,
			"stop":null,"tools":null,"tool_choice":null,"response_format":null,"logprobs":null,"stream":null,"n":null,
			"stream_options":null,"functions":null}`,
			llm.Request{Messages: []llm.Message{{Role: llm.User, Content: "x"}}}},
		"zeros": {`{"messages":[{"role":"user","content":"x"}],"temperature":0,"top_p":0,"top_k":-1,"seed":-2,"stop":"."}`,
			llm.Request{Messages: []llm.Message{{Role: llm.User, Content: "x"}}, Temperature: -1, TopP: 1, TopK: 0,
				Seed: seeds - 1, Stop: []string{"."}}},
		"any object": {`{"messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_object"}}`,
			llm.Request{Messages: []llm.Message{{Role: llm.User, Content: "x"}},
				Schema: json.RawMessage(`{"type":"object"}`)}},
		"schema": {`{"messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_schema","json_schema":
			{"name":"n","strict":true,"schema":` + schema + `}}}`,
			llm.Request{Messages: []llm.Message{{Role: llm.User, Content: "x"}}, Schema: json.RawMessage(schema)}},
		"tools": {`{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":null,"tool_calls":[{"id":"1",
			"type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"2"}],
			"tools":[{"type":"function","function":{"name":"f","description":"d","strict":true,
			"parameters":{"type":"object"}}}],
			"tool_choice":{"type":"function","function":{"name":"f"}}}`,
			llm.Request{Messages: []llm.Message{{Role: llm.User, Content: "x"},
				{Role: llm.Assistant, ToolCalls: []llm.ToolCall{{ID: "1", Name: "f", Arguments: "{}"}}},
				{Role: llm.ToolRole, Content: "2", ToolCallID: "1"}},
				Tools:      []llm.Tool{{Name: "f", Description: "d", Parameters: json.RawMessage(`{"type":"object"}`)}},
				ToolChoice: "f"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := chat(t, c.body)
			if err != nil {
				t.Fatal(err)
			}
			want := c.want // with defaults for what the case does not set
			switch want.Priority = llm.Interactive; want.Temperature {
			case 0:
				want.Temperature = 1
			case -1:
				want.Temperature = 0
			}
			if want.TopP == 0 {
				want.TopP = 1
			}
			if want.MaxTokens == 0 {
				want.MaxTokens = limits.MaxTokens
			}
			if want.Seed == 0 {
				want.Seed = -1
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestChatRefuses checks that errors name the parameter, and state a limit with the value given.
func TestChatRefuses(t *testing.T) {
	message := `{"role":"user","content":"x"}`
	with := func(rest string) string { return `{"messages":[` + message + `],` + rest + `}` }
	one := func(m string) string { return `{"messages":[` + m + `]}` }
	tool := `{"type":"function","function":{"name":"f"}}`
	for _, c := range []struct{ body, code, param, says string }{
		{`{}`, CodeMissing, "messages", ""},
		{one(strings.Repeat(message+",", 8) + message), CodeLimit, "messages", "9 messages, at most 8"},
		{one(`{"content":"x"}`), CodeMissing, "messages[0].role", ""},
		{one(`{"role":"user"}`), CodeMissing, "messages[0].content", ""},
		{one(`{"role":"user","content":null}`), CodeMissing, "messages[0].content", ""},
		{one(`{"role":"assistant","content":null}`), CodeMissing, "messages[0].content", ""},
		{one(`{"role":"function","content":"x"}`), CodeInvalid, "messages[0].role", `"function"`},
		{one(`{"role":"user","content":3}`), CodeType, "messages[0].content", "given a number"},
		{one(message + `,{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}`), CodeUnsupported,
			"messages[1].content[0].type", "image_url"},
		{one(`{"role":"user","content":["x"]}`), CodeType, "messages[0].content[0]", "given a string"},
		{one(`{"role":"user","content":[{"type":"text"}]}`), CodeMissing, "messages[0].content[0].text", ""},
		{one(`{"role":"user","content":[{"type":"text","text":1}]}`), CodeType, "messages[0].content[0].text", ""},
		{one(`{"role":"user","content":[{"type":"text","text":"a","b":1}]}`), CodeUnsupported,
			"messages[0].content[0].b", ""},
		{one(`{"role":"tool","content":"x"}`), CodeMissing, "messages[0].tool_call_id", ""},
		{one(`{"role":"user","content":"x","tool_calls":[{"id":"1","function":{"name":"f"}}]}`), CodeInvalid,
			"messages[0].tool_calls", ""},
		{one(`{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{"}}]}`), CodeInvalid,
			"messages[0].tool_calls[0].function.arguments", ""},
		{with(`"n":6`), CodeInvalid, "n", "6 is not between 1 and 5"},
		{with(`"n":0`), CodeInvalid, "n", "0 is not between 1 and 128"},
		{with(`"temperature":2.5`), CodeInvalid, "temperature", "2.5 is not between 0 and 2"},
		{with(`"top_p":-1`), CodeInvalid, "top_p", ""},
		{with(`"presence_penalty":3`), CodeInvalid, "presence_penalty", ""},
		{with(`"top_k":-2`), CodeInvalid, "top_k", ""},
		{with(`"max_tokens":0`), CodeInvalid, "max_tokens", "0 is not between 1 and 2147483647"},
		{with(`"max_completion_tokens":0`), CodeInvalid, "max_completion_tokens", ""},
		{with(`"top_logprobs":2`), CodeInvalid, "top_logprobs", ""},
		{with(`"logprobs":true,"top_logprobs":21`), CodeInvalid, "top_logprobs", "21 is not between 0 and 20"},
		{with(`"stop":""`), CodeInvalid, "stop", ""},
		{with(`"stop":["a",""]`), CodeInvalid, "stop[1]", ""},
		{with(`"stop":[1]`), CodeType, "stop[0]", ""},
		{with(`"stop":"a\u0000"`), CodeInvalid, "stop", ""},
		{with(`"stop":["` + strings.Repeat(`a","`, 16) + `b"]`), CodeLimit, "stop", "17 strings, at most 16"},
		{with(`"stop":"` + strings.Repeat("a", 1025) + `"`), CodeLimit, "stop", "1025 bytes, at most 1024"},
		{with(`"stream_options":{"include_usage":true}`), CodeInvalid, "stream_options", ""},
		{with(`"logit_bias":{"1":2}`), CodeUnsupported, "logit_bias", ""},
		{with(`"modalities":["text","audio"]`), CodeUnsupported, "modalities[1]", ""},
		{with(`"functions":[]`), CodeUnsupported, "functions", ""},
		{with(`"response_format":"json"`), CodeType, "response_format", ""},
		{with(`"response_format":{}`), CodeMissing, "response_format.type", ""},
		{with(`"response_format":{"type":"xml"}`), CodeInvalid, "response_format.type", ""},
		{with(`"response_format":{"type":"json_schema"}`), CodeMissing, "response_format.json_schema", ""},
		{with(`"response_format":{"type":"json_schema","json_schema":{"name":"n"}}`), CodeMissing,
			"response_format.json_schema.schema", ""},
		{with(`"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":[]}}`), CodeType,
			"response_format.json_schema.schema", ""},
		{with(`"tools":[` + tool + `,` + tool + `]`), CodeInvalid, "tools[1].function.name", "twice"},
		{with(`"tools":[` + tool + `,` + tool + `,` + tool + `]`), CodeLimit, "tools", "3 tools, at most 2"},
		{with(`"tools":[{"type":"web_search"}]`), CodeUnsupported, "tools[0].type", ""},
		{with(`"tools":[{"type":"function","function":{"name":"a b"}}]`), CodeInvalid, "tools[0].function.name", ""},
		{with(`"tools":[{"type":"function","function":{"name":"a","parameters":[]}}]`), CodeType,
			"tools[0].function.parameters", ""},
		{with(`"tool_choice":"required"`), CodeInvalid, "tool_choice", ""},
		{with(`"tool_choice":"f"`), CodeInvalid, "tool_choice", ""},
		{with(`"tool_choice":{"type":"function","function":{"name":"g"}},"tools":[` + tool + `]`), CodeInvalid,
			"tool_choice.function.name", ""},
		{with(`"response_format":{"type":"json_object"},"tools":[` + tool + `]`), CodeUnsupported,
			"response_format", ""},
	} {
		_, err := chat(t, c.body)
		if err == nil || err.Code != c.code || err.Param != c.param || !strings.Contains(err.Message, c.says) ||
			!strings.HasPrefix(err.Message, c.param) {
			t.Errorf("%.200s:\n\t%+v, want %s about %s: %s", c.body, err, c.code, c.param, c.says)
		}
	}
}
