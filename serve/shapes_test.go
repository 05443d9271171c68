package serve

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/serve/openai"
)

// TestAnnotations checks the places that cite sources, whole and in a stream.
func TestAnnotations(t *testing.T) {
	w := newWorld(t, nil)
	const body = `{"model":"sluice","messages":[{"role":"user","content":"` + deferred +
		`"}],"sluice":{"style":"write"}`
	_, text := do(t, w, post("/v1/chat/completions", body+`}`))
	whole := as[openai.ChatCompletion](t, text).Choices[0].Message.Annotations
	_, text = do(t, w, post("/v1/chat/completions", body+`,"stream":true}`))
	list := chunks(t, text)
	streamed := list[len(list)-1].Choices[0].Delta.Annotations
	for _, all := range [][]openai.Annotation{whole, streamed} {
		if len(all) != 1 || all[0].Type != "url_citation" || all[0].URLCitation != (openai.URLCitation{StartIndex: 10,
			EndIndex: 13, URL: "http://localhost/v1/chunks/defer?store=sea", Title: "defer"}) {
			t.Errorf("%+v", all)
		}
	}
}

// weather is a model that calls a tool, if there is one, and else answers in two pieces after a thought.
func weather(_ context.Context, r llm.Request, stream func(string) error) (llm.Result, error) {
	out := llm.Result{PromptTokens: 5, CompletionTokens: 2, Finish: llm.FinishStop}
	if len(r.Tools) > 0 {
		out.Finish, out.ToolCalls = llm.FinishTools, []llm.ToolCall{{ID: "call-1", Name: r.Tools[0].Name,
			Arguments: `{"city":"Bern"}`}}
		return out, nil
	}
	if think := r.Thinking.Stream; think != nil {
		if err := think("Hm."); err != nil {
			return out, err
		}
	}
	out.Thought = "Hm."
	for _, piece := range []string{"It ", "rains."} {
		if out.Text += piece; stream != nil {
			if err := stream(piece); err != nil {
				return out, err
			}
		}
	}
	return out, nil
}

// TestOllama checks Ollama's routes: models, chats, answers, embeddings and errors.
func TestOllama(t *testing.T) {
	w := worldOf(t, weather)
	for path, want := range map[string]string{"/api/version": `{"version":"0"}`, "/api/tags": `"name":"sluice"`} {
		if status, text := do(t, w, get(path)); status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	const hi = `{"model":"default:latest","messages":[{"role":"system","content":"Be brief."},` +
		`{"role":"user","content":"x"}]`
	const tool = `,"tools":[{"type":"function","function":{"name":"weather","parameters":{"type":"object"}}}]`
	for _, c := range []struct{ path, body, want string }{
		{"/api/show", `{"model":"default"}`, `"capabilities":["completion","tools"]`},
		{"/api/show", `{"model":"sluice:latest"}`, `"capabilities":["completion"]`},
		{"/api/chat", hi + `,"stream":false,"options":{"num_predict":-1,"num_ctx":2048}}`,
			`"message":{"role":"assistant","content":"It rains.","thinking":"Hm."},"done":true,"done_reason":"stop"`},
		{"/api/chat", hi + `,"stream":false` + tool + `}`,
			`"tool_calls":[{"id":"call-1","function":{"index":0,"name":"weather","arguments":{"city":"Bern"}}}]`},
		{"/api/generate", `{"model":"default","prompt":"x","system":"Be brief.","stream":false}`,
			`"response":"It rains."`},
		{"/api/generate", `{"model":"default"}`, `"done_reason":"load"`},
		{"/api/chat", `{"model":"sluice","stream":false,"messages":[{"role":"user","content":"` + deferred +
			`"}],"sluice":{"style":"write"}}`, `"retrieved":true`},
		{"/api/embed", `{"model":"words:latest","input":["a ship","x"]}`, `"embeddings":[[`},
	} {
		if status, text := do(t, w, post(c.path, c.body)); status != http.StatusOK || !strings.Contains(text, c.want) {
			t.Errorf("%s %s: %d %s", c.path, c.body, status, text)
		}
	}
	_, text := do(t, w, post("/api/chat", hi+`}`))
	said, thought, done := "", "", 0
	for line := range strings.Lines(text) {
		a := as[ollamaAnswer](t, line)
		said, thought = said+a.Message.Content, thought+a.Message.Thinking
		if a.Done {
			done++
			if a.PromptCount != 5 || a.AnswerCount != 2 {
				t.Errorf("%s", line)
			}
		}
	}
	if said != "It rains." || thought != "Hm." || done != 1 {
		t.Errorf("%q %q %d: %s", said, thought, done, text)
	}
	for _, c := range []struct {
		path, body, want string
		status           int
	}{
		{"/api/chat", `{"model":"gone","messages":[{"role":"user","content":"x"}]}`, `there is no language model`, 404},
		{"/api/chat", `{"model":"default","messages":[{"role":"user","content":"x","images":["eA=="]}]}`, "pictures",
			400},
		{"/api/chat", hi + `,"format":7}`, `format is`, 400},
		{"/api/chat", hi + `,"options":{"temperature":9}}`, `9 is not between 0 and 2`, 400},
		{"/api/generate", `{"model":"default","prompt":"x","suffix":"y"}`, "suffix", 400},
		{"/api/embed", `{"model":"gone","input":"x"}`, "there is no encoder", 404},
		{"/api/show", `{"model":"gone"}`, "there is no model", 404},
	} {
		status, text := do(t, w, post(c.path, c.body))
		if e := as[ollamaError](t, text).Error; status != c.status || !strings.Contains(e, c.want) {
			t.Errorf("%s %s: %d %s", c.path, c.body, status, text)
		}
	}
}

// TestAnthropic checks POST /v1/messages: text, thinking, tools, citations, the events of a stream, and errors.
func TestAnthropic(t *testing.T) {
	w := worldOf(t, weather)
	const hi = `{"model":"default","max_tokens":9,"system":[{"type":"text","text":"Be brief."}],"messages":[` +
		`{"role":"user","content":[{"type":"text","text":"x"}]}]`
	const tool = `,"tools":[{"name":"weather","input_schema":{"type":"object"}}],"tool_choice":{"type":"any"}`
	const cited = `{"model":"sluice","max_tokens":99,"messages":[{"role":"user","content":"` + deferred +
		`"}],"sluice":{"style":"quote"}`
	for body, want := range map[string]string{
		hi + `}`: `"content":[{"type":"thinking","thinking":"Hm.","signature":""},` +
			`{"type":"text","text":"It rains."}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":5,"output_tokens":2}`,
		hi + tool + `}`: `{"type":"tool_use","id":"call-1","name":"weather","input":{"city":"Bern"}}],` +
			`"stop_reason":"tool_use"`,
		`{"model":"default","max_tokens":9,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[` +
			`{"type":"tool_use","id":"a","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result",` +
			`"tool_use_id":"a","content":"y"}]}]}`: "It rains.",
		cited + `}`: `"citations":[{"type":"search_result_location"`,
	} {
		status, text := do(t, w, post("/v1/messages", body))
		if status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	for body, want := range map[string]string{
		hi: "message_start content_block_start content_block_delta content_block_stop content_block_start " +
			"content_block_delta content_block_delta content_block_stop message_delta message_stop",
		hi + tool: "message_start content_block_start content_block_delta content_block_stop message_delta " +
			"message_stop",
	} {
		_, text := do(t, w, post("/v1/messages", body+`,"stream":true}`))
		var names []string
		for line := range strings.Lines(text) {
			if name, ok := strings.CutPrefix(line, "event: "); ok {
				names = append(names, strings.TrimSpace(name))
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s", text)
		}
	}
	_, text := do(t, w, post("/v1/messages", cited+`,"stream":true}`))
	if !strings.Contains(text, `"type":"citations_delta"`) || !strings.Contains(text, `"title":"defer"`) {
		t.Errorf("%s", text)
	}
	for _, c := range []struct {
		body, want string
		status     int
	}{
		{`{"model":"default","messages":[{"role":"user","content":"x"}]}`, "max_tokens is missing", 400},
		{`{"model":"gone","max_tokens":1,"messages":[{"role":"user","content":"x"}]}`, "there is no language", 404},
		{`{"model":"default","max_tokens":1,"messages":[{"role":"bird","content":"x"}]}`, "bird", 400},
		{`{"model":"default","max_tokens":1,"messages":[{"role":"user","content":[{"type":"image"}]}]}`, "image", 400},
		{`{"model":"default","max_tokens":0,"messages":[]}`, "0 is not between 1", 400},
	} {
		status, text := do(t, w, post("/v1/messages", c.body))
		e := as[anthropicError](t, text)
		if status != c.status || e.Type != "error" || !strings.Contains(e.Error.Message, c.want) {
			t.Errorf("%s: %d %s", c.body, status, text)
		}
	}
}

// TestDify checks POST /retrieval: passages above the threshold, none behind a closed gate, and errors.
func TestDify(t *testing.T) {
	w := twoBases(t, nil)
	ask := func(key, body string) (int, string) { return do(t, w, with(post("/retrieval", body), key)) }
	const setting = `,"retrieval_setting":{"top_k":2,"score_threshold":0.3}}`
	status, text := ask(firstKey, `{"knowledge_id":"sea","query":"`+deferred+`"`+setting)
	if got := as[difyAnswer](t, text).Records; status != 200 || len(got) != 1 || got[0].Title != "defer" ||
		got[0].Score <= .3 || got[0].Metadata.Passage != "defer" {
		t.Errorf("%d %s", status, text)
	}
	status, text = ask(firstKey, `{"knowledge_id":"sea","query":"`+unrelated+`"`+setting)
	if text != "{\"records\":[]}\n" {
		t.Errorf("%d %s", status, text)
	}
	for _, c := range []struct {
		key, body    string
		status, code int
	}{
		{firstKey, `{"knowledge_id":"moon","query":"x"` + setting, 404, 2001},
		{"nobody's key", `{"knowledge_id":"sea","query":"x"` + setting, 401, 1002},
		{firstKey, `{"knowledge_id":"sea","query":""` + setting, 400, 400},
		{firstKey, `{"query":"x","retrieval_setting":{"top_k":0}}`, 400, 400},
	} {
		status, text := ask(c.key, c.body)
		if e := as[difyError](t, text); status != c.status || e.Code != c.code || e.Message == "" {
			t.Errorf("%s: %d %s", c.body, status, text)
		}
	}
}

// TestResponses checks POST /v1/responses: text, thinking, functions, searches with results, events, and errors.
func TestResponses(t *testing.T) {
	w := worldOf(t, weather)
	const hi = `{"model":"default","instructions":"Be brief.","input":"x"`
	const tool = `,"tools":[{"type":"function","name":"weather","parameters":{"type":"object"}}]`
	const cited = `{"model":"gpt","input":[{"role":"user","content":[{"type":"input_text","text":"` + deferred +
		`"}]}],"tools":[{"type":"file_search","vector_store_ids":["sea"]}],"include":["file_search_call.results"],` +
		`"sluice":{"style":"quote"}`
	for body, wants := range map[string][]string{
		hi + `}`: {`"content":[{"type":"reasoning_text","text":"Hm."}]`, `"text":"It rains.","annotations":[]`,
			`"status":"completed"`, `"input_tokens":5`},
		hi + tool + `}`: {`"call_id":"call-1","name":"weather","arguments":"{\"city\":\"Bern\"}"`},
		cited + `}`: {`"queries":["` + deferred, `"text":"A deferred function runs`,
			`"type":"file_citation","file_id":"defer"`, `"model":"gpt"`},
		`{"model":"default","input":[{"role":"user","content":"x"},{"type":"function_call","call_id":"a","name":"f",` +
			`"arguments":"{}"},{"type":"function_call_output","call_id":"a","output":"y"}]}`: {"It rains."},
		hi + `,"text":{"format":{"type":"json_schema","name":"s","schema":{"type":"object"}}}}`: {"It rains."},
	} {
		status, text := do(t, w, post("/v1/responses", body))
		for _, want := range wants {
			if status != http.StatusOK || !strings.Contains(text, want) {
				t.Errorf("%s: %d %s, want %s", body, status, text, want)
			}
		}
	}
	for body, want := range map[string]string{
		hi: "created in_progress output_item.added reasoning_text.delta reasoning_text.done output_item.done " +
			"output_item.added content_part.added output_text.delta output_text.delta output_text.done " +
			"content_part.done output_item.done completed",
		hi + tool: "created in_progress output_item.added function_call_arguments.delta function_call_arguments.done " +
			"output_item.done completed",
		cited: "created in_progress output_item.added file_search_call.in_progress file_search_call.searching " +
			"file_search_call.completed output_item.done output_item.added content_part.added output_text.delta " +
			"output_text.annotation.added output_text.done content_part.done output_item.done completed",
	} {
		_, text := do(t, w, post("/v1/responses", body+`,"stream":true}`))
		var names []string
		for line := range strings.Lines(text) {
			if name, ok := strings.CutPrefix(line, "event: response."); ok {
				names = append(names, strings.TrimSpace(name))
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s\n%s", got, text)
		}
	}
	for _, c := range []struct {
		body, param string
		status      int
	}{
		{`{"model":"gone","input":"x"}`, "model", 404},
		{`{"model":"default"}`, "input", 400},
		{`{"model":"default","input":"x","previous_response_id":"resp_1"}`, "previous_response_id", 400},
		{`{"model":"default","input":"x","background":true}`, "background", 400},
		{`{"model":"default","input":"x","tools":[{"type":"web_search"}]}`, "tools[0].type", 400},
		{`{"model":"default","input":[{"type":"item_reference","id":"x"}]}`, "input[0].type", 400},
		{`{"model":"default","input":"x","temperature":3}`, "temperature", 400},
		{`{"model":"x","input":"x","tools":[{"type":"file_search","vector_store_ids":["moon"]}]}`, "store", 404},
	} {
		status, text := do(t, w, post("/v1/responses", c.body))
		if e := failure(t, text); status != c.status || e.Param != c.param {
			t.Errorf("%s: %d %s", c.body, status, text)
		}
	}
}
