package serve

import (
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// TestOpenAPIConditions checks that openapi.json allows exactly what the server accepts: which fields need or exclude
// each other, the allowed words, and the meaning of null. A conflict with the state of a knowledge base is not a bad
// request.
func TestOpenAPIConditions(t *testing.T) {
	s, err := loadSpec()
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, nil)
	working(t, w)
	chat := func(rest ...string) []string {
		for i, x := range rest {
			rest[i] = `{"model":"default","messages":[{"role":"user","content":"x"}],` + x + `}`
		}
		return rest
	}
	of := func(messages ...string) []string {
		for i, x := range messages {
			messages[i] = `{"model":"default","messages":[` + x + `,{"role":"user","content":"x"}]}`
		}
		return messages
	}
	base := func(rest ...string) []string {
		for i, x := range rest {
			rest[i] = `{"messages":[{"role":"user","content":"` + inScope + `"}],` + x + `}`
		}
		return rest
	}
	long := strings.Repeat("é", 1000)
	for path, list := range map[string][][]string{
		"/v1/chat/completions": {
			chat(`"stream_options":{}`, `"stream_options":null`, `"stream":true,"stream_options":{}`,
				`"top_logprobs":2`, `"top_logprobs":0`, `"logprobs":true,"top_logprobs":2`,
				`"max_tokens":1,"max_completion_tokens":2`,
				`"tool_choice":"required"`, `"tool_choice":"none"`, `"tool_choice":null`, `"sluice":{}`,
				`"sluice":null`,
				`"seed":9223372036854775807`, `"seed":9223372036854775808`, `"temperature":2.0`, `"n":1.0`,
				`"Temperature":1`, `"stop":null`, `"stop":[]`, `"modalities":null`,
				`"response_format":{"type":"json_schema","json_schema":{"name":null,"schema":{"type":"object"}}}`),
			of(`{"role":"user"}`, `{"role":"user","content":null}`, `{"role":"system","content":[]}`,
				`{"role":"assistant"}`, `{"role":"assistant","refusal":"no"}`, `{"role":"assistant","content":"x"}`,
				`{"role":"assistant","tool_calls":[]}`, `{"role":"tool","content":"x"}`,
				`{"role":"tool","content":"x","tool_call_id":""}`,
				`{"role":"user","content":"x","tool_calls":[{"id":"1","function":{"name":"f"}}]}`,
				`{"role":"user","content":"x","tool_calls":null}`, `{"role":"user","content":"x","name":null}`),
			base(`"stop":"x"`, `"stop":[]`, `"tools":[]`, `"logprobs":false`, `"logprobs":true`, `"presence_penalty":1`,
				`"presence_penalty":0`, `"min_p":0.5`, `"response_format":{"type":"text"}`,
				`"response_format":{"type":"json_object"}`, `"sluice":{"k":null,"mode":null,"store":null}`,
				`"sluice":{"neighbours":33}`, `"sluice":{"where":["topic=sea"]}`, `"sluice":{"where":["sea"]}`,
				`"sluice":{"explain":null}`),
		},
		"/v1/completions": {{`{"prompt":"x","stream_options":{}}`, `{"prompt":"x","best_of":1}`,
			`{"prompt":"x","best_of":null}`, `{"prompt":"x","best_of":0}`, `{"prompt":"x","model":null}`}},
		"/tokenize": {{`{}`, `{"content":null}`, `{"content":null,"prompt":"x"}`, `{"content":"x","prompt":"y"}`,
			`{"prompt":"x","model":null}`, `{"content":""}`}},
		"/v1/gate": {{`{}`, `{"query":""}`, `{"query":null,"queries":["x"]}`, `{"query":"x","queries":["x"]}`,
			`{"query":"x","queries":[]}`, `{"query":"x","vectors":null}`, `{"queries":[""]}`, `{"queries":[]}`,
			`{"query":"x","store":null}`}},
		"/v1/retrieve": {{`{"query":"x","where":["topic=go"]}`, `{"query":"x","where":["meta.=go"]}`,
			`{"query":"x","where":["meta.language >=1"]}`, `{"query":"x","where":[" title ~ x "]}`,
			`{"query":"x","where":["colour=red"]}`, `{"query":"x","where":[""]}`, `{"query":"x","where":["topic!x"]}`,
			`{"query":"x","where":["topic=a\u0000"]}`, `{"query":"x","mode":null,"expand":null,"gate":null}`,
			`{"query":"x","k":1000.0}`, `{"query":"x","k":1001}`, `{"query":"x","explain":null}`}},
		"/v1/documents": {{`{}`, `{"text":" "}`, `{"text":"fog"}`, `{"text":"fog","documents":[]}`,
			`{"text":"fog","documents":[{"text":"tide"}]}`, `{"documents":[{"text":""}]}`,
			`{"documents":[{"text":"x"}]}`,
			`{"documents":[]}`, `{"text":"fog","id":"a\nb"}`, `{"text":"fog","id":"` + long + `"}`,
			`{"text":"fog","id":"` + long + `x"}`, `{"text":"fog","store":"sea","title":null}`,
			`{"documents":[{"text":"x"}],"title":"y"}`, `{"documents":[{"text":"x"}],"title":""}`}},
		"/v1/calibration": {{`{"policy":"guess"}`, `{"policy":"p101"}`, `{"policy":"p99.5","per_context":1}`,
			`{"policy":"maximum:density:05"}`, `{"policy":"p1."}`, `{"policy":"p"}`, `{"policy":"maximum:auto"}`,
			`{"negatives":"sample:0"}`, `{"negatives":"sample:3"}`, `{"negatives":"sample:1000000000"}`,
			`{"score":"cosine+cover:0"}`, `{"score":"cosine+cover:0.5"}`, `{"score":"cosine+cover:100"}`,
			`{"score":"ip+cover"}`, `{"name":"../x"}`, `{"name":""}`, `{"holdout":null}`, `{"holdout":0.95}`, `{}`}},
		"/v1/calibration/policy": {{`{}`, `{"policy":"mean"}`, `{"policy":"paper"}`, `{"policy":"most"}`,
			`{"threshold":-3}`, `{"threshold":null}`, `{"name":"none.such"}`, `{"name":"x y"}`}},
		"/v1/embeddings": {{`{"input":"x","dimensions":0}`, `{"input":"x","encoding_format":null,"model":null}`}},
	} {
		ref := s.paths[path]["post"].RequestBody.Content["application/json"].Schema.Ref
		schema, err := s.compile(ref)
		if err != nil {
			t.Fatal(err)
		}
		for _, bodies := range list {
			for _, body := range bodies {
				v, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				wrong := schema.Validate(v)
				status, answer := do(t, w, post(path, body))
				if taken := status != 400; taken != (wrong == nil) || status >= 500 {
					t.Errorf("%s %.200s: status %d, by openapi.json %v\n%.500s", path, body, status, wrong, answer)
				}
				w.model.Reset("An answer [1].")
			}
		}
	}
}
