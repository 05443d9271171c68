package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/serve/openai"
)

const unrelated = "Who won the match on Sunday evening?"

// chunks parses the events of a stream, which must end with [DONE].
func chunks(t testing.TB, body string) (list []openai.ChatChunk) {
	t.Helper()
	events := strings.Split(strings.TrimSuffix(body, "\n\n"), "\n\n")
	for i, e := range events {
		data, ok := strings.CutPrefix(e, "data: ")
		if !ok {
			t.Fatalf("event %d is %q", i, e)
		}
		if i == len(events)-1 {
			if data != "[DONE]" {
				t.Fatalf("the last event is %q", e)
			}
			return list
		}
		list = append(list, as[openai.ChatChunk](t, data))
	}
	return nil
}

// scripted is a language model double for results that doubles.Model cannot make.
type scripted struct {
	*doubles.Model
	generate func(ctx context.Context, r llm.Request, stream func(string) error) (llm.Result, error)
}

func (s scripted) Generate(ctx context.Context, r llm.Request, stream func(string) error) (llm.Result, error) {
	return s.generate(ctx, r, stream)
}

// worldOf returns a world whose language model answers by the given function.
func worldOf(
	t testing.TB, f func(ctx context.Context, r llm.Request, stream func(string) error) (llm.Result, error),
) *world {
	t.Helper()
	return newWorldOf(t, scripted{doubles.NewModel(""), f})
}

func TestChat(t *testing.T) {
	w := newWorld(t, nil)
	status, body := do(t, w, post("/v1/chat/completions", `{"model":"script","messages":[{"role":"system","content":`+
		`"Be brief."},{"role":"user","content":"Hi <|im_end|>"}],"temperature":0,"max_tokens":7,"stop":["x"],`+
		`"seed":3}`))
	if status != 200 {
		t.Fatal(status, body)
	}
	a := as[openai.ChatCompletion](t, body)
	if a.Object != "chat.completion" || a.Model != "script" || !strings.HasPrefix(a.ID, "chatcmpl-") ||
		*a.Choices[0].Message.Content != "An answer [1]." || a.Choices[0].FinishReason != "stop" ||
		a.Usage.CompletionTokens != 3 || a.Usage.TotalTokens != 3 || a.Created < 1e9 {
		t.Errorf("%s", body)
	}
	got := w.model.Requests()[0]
	if len(got.Messages) != 2 || got.Messages[1].Content != "Hi <|im_end|>" || got.MaxTokens != 7 || got.Seed != 3 ||
		got.Priority != llm.Interactive || got.Stop[0] != "x" || got.Prompt != "" {
		t.Errorf("%+v", got)
	}
}

func TestChatStream(t *testing.T) {
	w := newWorld(t, nil)
	status, body := do(t, w, post("/v1/chat/completions", `{"model":"default","stream":true,`+
		`"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"Hi"}]}`))
	list := chunks(t, body)
	if status != 200 || len(list) < 4 {
		t.Fatal(status, body)
	}
	text, finish := "", ""
	for i, c := range list {
		if c.ID != list[0].ID || c.Object != "chat.completion.chunk" {
			t.Errorf("%+v", c)
		}
		if i == len(list)-1 {
			if len(c.Choices) != 0 || c.Usage == nil || c.Usage.CompletionTokens != 3 {
				t.Errorf("the last chunk is %+v", c)
			}
			continue
		}
		d := c.Choices[0]
		if (d.Delta.Role == "assistant") != (i == 0) || c.Usage != nil {
			t.Errorf("chunk %d is %+v", i, c)
		}
		if d.Delta.Content != nil {
			text += *d.Delta.Content
		}
		if d.FinishReason != nil {
			finish += *d.FinishReason
		}
	}
	if text != "An answer [1]." || finish != "stop" {
		t.Errorf("%q, %q", text, finish)
	}
}

// TestChatTools checks that tool calls come whole without a stream, and split as OpenAI does with one.
func TestChatTools(t *testing.T) {
	var asked llm.Request
	w := worldOf(t, func(_ context.Context, r llm.Request, _ func(string) error) (llm.Result, error) {
		asked = r
		return llm.Result{Finish: llm.FinishTools, ToolCalls: []llm.ToolCall{{ID: "a", Name: "f", Arguments: `{"x":1}`},
			{ID: "b", Name: "f", Arguments: `{}`}}, LogProbs: []llm.TokenLogProb{{Text: "{", LogProb: -1}}}, nil
	})
	const request = `{"model":"default","messages":[{"role":"user","content":"Hi"}],"logprobs":true,"tools":[{"type":` +
		`"function","function":{"name":"f"}}],"tool_choice":"required"`
	status, body := do(t, w, post("/v1/chat/completions", request+"}"))
	m := as[openai.ChatCompletion](t, body).Choices[0]
	if status != 200 || m.Message.Content != nil || len(m.Message.ToolCalls) != 2 || m.FinishReason != "tool_calls" ||
		m.Message.ToolCalls[0].Function.Arguments != `{"x":1}` || m.Message.ToolCalls[0].Index != nil ||
		m.LogProbs.Content[0].LogProb != -1 || asked.ToolChoice != "required" || len(asked.Tools) != 1 {
		t.Errorf("%d %s", status, body)
	}
	status, body = do(t, w, post("/v1/chat/completions", request+`,"stream":true,"parallel_tool_calls":false}`))
	list := chunks(t, body)
	if status != 200 || len(list) != 4 {
		t.Fatal(status, body)
	}
	first, rest := list[1].Choices[0].Delta.ToolCalls[0], list[2].Choices[0].Delta.ToolCalls[0]
	last := list[3].Choices[0]
	if *first.Index != 0 || first.ID != "a" || first.Function.Name != "f" || first.Function.Arguments != "" ||
		rest.ID != "" || rest.Function.Arguments != `{"x":1}` || *last.FinishReason != "tool_calls" ||
		len(last.LogProbs.Content) != 1 {
		t.Errorf("%s", body)
	}
}

// TestChatFromBase checks that the last message is the question and the earlier ones the history, and that a stream's
// first chunk has the sources.
func TestChatFromBase(t *testing.T) {
	w := newWorld(t, nil)
	request := func(more string) *http.Request {
		return post("/v1/chat/completions", `{"model":"sluice/sea","messages":[{"role":"system","content":"s"},`+
			`{"role":"user","content":"Hello"},{"role":"assistant","content":"Hi"},{"role":"user","content":"`+inScope+
			`"}]`+more+`}`)
	}
	status, body := do(t, w, request(`,"sluice":{"gate":"open","k":2,"mode":"dense"}`))
	type answered struct {
		Model   string
		Choices []openai.Choice
		Usage   *openai.Usage
		Sluice  ragAnswer
	}
	a := as[answered](t, body)
	if status != 200 || a.Model != "sluice/sea" || *a.Choices[0].Message.Content != "An answer [1]." ||
		!a.Sluice.Retrieved || len(a.Sluice.Citations) != 2 || !a.Sluice.Citations[0].Cited ||
		a.Sluice.Store != "sea" || a.Sluice.Trace.GateMode != "open" || len(a.Sluice.Trace.Retrieved) != 2 ||
		a.Usage.CompletionTokens != 3 ||
		len(a.Sluice.Ignored) != 1 || !strings.Contains(a.Sluice.Ignored[0], "messages[0]") {
		t.Errorf("%d %s", status, body)
	}
	status, body = do(t, w, request(`,"stream":true,"stream_options":{"include_usage":true},"sluice":{"gate":"open"}`))
	list := chunks(t, body)
	if status != 200 || len(list) < 4 {
		t.Fatal(status, body)
	}
	of := func(c openai.ChatChunk) (r ragAnswer) {
		raw, _ := json.Marshal(c.Sluice)
		return as[ragAnswer](t, string(raw))
	}
	first, last := of(list[0]), of(list[len(list)-2])
	if len(first.Citations) != 4 || first.Citations[0].Cited || !first.Retrieved || first.Trace.LLMCalls > 0 ||
		list[0].Choices[0].Delta.Role != "assistant" || !last.Citations[0].Cited || last.Trace.LLMCalls == 0 ||
		list[len(list)-1].Usage == nil {
		t.Errorf("%s", body)
	}
	status, body = do(t, w, post("/v1/chat/completions", `{"model":"sluice","stream":true,"sluice":{"steps":true},`+
		`"messages":[{"role":"user","content":"`+unrelated+`"}]}`))
	list = chunks(t, body)
	for i, c := range list {
		if (c.Choices[0].Delta.Role == "assistant") != (i == 0) {
			t.Errorf("chunk %d has the role %q", i, c.Choices[0].Delta.Role)
		}
	}
	if status != 200 || !strings.Contains(body, `"node":"gate"`) || of(list[len(list)-1]).Retrieved ||
		!strings.Contains(of(list[len(list)-1]).Notice, "own knowledge") {
		t.Errorf("%d %s", status, body)
	}
}

// TestChatRefusals checks status, code and parameter of refused requests.
func TestChatRefusals(t *testing.T) {
	w := newWorld(t, nil)
	const hi = `"messages":[{"role":"user","content":"Hi"}]`
	for _, c := range []struct {
		path, body  string
		status      int
		code, param string
	}{
		{"chat/completions", `{"model":"gpt-4o",` + hi + `}`, 404, "model_not_found", "model"},
		{"chat/completions", `{"model":"sluice/other",` + hi + `}`, 404, "unknown_store", "store"},
		{"chat/completions", `{"model":"sluice",` + hi + `,"sluice":{"store":"other"}}`, 404, "unknown_store", "store"},
		{"chat/completions", `{"model":"sluice/sea",` + hi + `,"sluice":{"store":"b"}}`, 400, "", "sluice.store"},
		{"chat/completions", `{"model":"default",` + hi + `,"sluice":{}}`, 400, "", "sluice"},
		{"chat/completions", `{"model":"sluice",` + hi + `,"sluice":{"k":-1}}`, 400, "invalid_value", "sluice.k"},
		{"chat/completions", `{"model":"sluice",` + hi + `,"sluice":{"k":"a"}}`, 400, "", "sluice.k"},
		{"chat/completions", `{"model":"sluice",` + hi + `,"sluice":{"x":1}}`, 400, "", "sluice.x"},
		{"chat/completions", `{"model":"sluice",` + hi + `,"sluice":[]}`, 400, "", "sluice"},
		{"chat/completions", `{"model":"sluice",` + hi + `,"sluice":{"gate":"ajar"}}`, 400, "invalid_value",
			"sluice.gate"},
		{"chat/completions", `{"model":"sluice",` + hi + `,"sluice":{"flow":"x"}}`, 400, "invalid_value",
			"sluice.flow"},
		{"chat/completions", `{"model":"sluice",` + hi + `,"sluice":{"transform":"x"}}`, 400, "invalid_value",
			"sluice.transform"},
		{"chat/completions", `{"model":"sluice",` + hi + `,"sluice":{"template":"../x"}}`, 400, "", "sluice.template"},
		{"chat/completions", `{"model":"sluice",` + hi + `,"sluice":{"template":"nosuch"}}`, 400, "bad_option", ""},
		{"chat/completions", `{"model":"sluice",` + hi + `,"min_p":0.5}`, 400, "unsupported_parameter", "min_p"},
		{"chat/completions", `{"model":"sluice",` + hi + `,"response_format":{"type":"json_object"},` +
			`"sluice":{"style":"quote"}}`, 400, "bad_option", ""},
		{"chat/completions", `{"model":"sluice",` + hi + `,` + tideTool + `,"sluice":{"flow":"graph"}}`, 400,
			"bad_option", ""},
		{"chat/completions", `{"model":"sluice",` + hi + `,"stream":true,"response_format":{"type":"json_schema",` +
			`"json_schema":{"name":"x","schema":{"type":"nosuch"}}}}`, 400, "invalid_schema",
			"response_format.json_schema.schema"},
		{"chat/completions", `{"model":"sluice","messages":[{"role":"user","content":" "}]}`, 400, "",
			"messages[0].content"},
		{"chat/completions", `{"model":"sluice","messages":[{"role":"assistant","content":"x"}]}`, 400, "",
			"messages[0].role"},
		{"chat/completions", `{"model":"default",` + hi + `,"n":129}`, 400, "invalid_value", "n"},
		{"chat/completions", `{"model":"default",` + hi + `,"n":"2"}`, 400, "", "n"},
		{"chat/completions", `{"model":"default",` + hi + `,"unheard_of":1}`, 400, "", "unheard_of"},
		{"chat/completions", `{"model":"default","messages":"x"}`, 400, "", "messages"},
		{"completions", `{"model":"default"}`, 400, "missing_required_parameter", "prompt"},
		{"completions", `{"model":"x","prompt":"a"}`, 404, "model_not_found", "model"},
		{"completions", `{"model":"default","prompt":["a",[1,2]]}`, 400, "bad_tokens", "prompt[1]"},
		{"embeddings", `{"model":"words","input":[[1,2]]}`, 400, "bad_tokens", "input"},
		{"embeddings", `{"model":"words","input":["a",""]}`, 400, "invalid_value", "input[1]"},
		{"embeddings", `{"model":"words","input":[]}`, 400, "invalid_value", "input"},
		{"embeddings", `{"model":"text-embedding-3-small","input":"a"}`, 404, "model_not_found", "model"},
		{"embeddings", `{"model":"words","input":"a","dimensions":3}`, 400, "unsupported_parameter", "dimensions"},
		{"embeddings", `{"model":"words","input":"` + strings.Repeat("a ", 70) + `","truncate":false}`, 400,
			"text_too_long", "input[0]"},
		{"rerank", `{"query":"a","documents":["b"]}`, 404, "model_not_found", "model"},
		{"rerank", `{"query":"a","documents":["b"],"top_n":"1"}`, 400, "", "top_n"},
		{"classify", `{"input":"a"}`, 404, "model_not_found", "model"},
	} {
		status, body := do(t, w, post("/v1/"+c.path, c.body))
		e := failure(t, body)
		if status != c.status || e.Code != c.code || e.Param != c.param {
			t.Errorf("%s %s: %d %+v, want %d %s %s", c.path, c.body, status, e, c.status, c.code, c.param)
		}
	}
	if n := len(w.model.Requests()); n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
}

// TestChatErrors checks that errors of the language model have a status before anything is sent, and are an event
// later.
func TestChatErrors(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		status int
		param  string
	}{
		"busy":     {&llm.BusyError{Limit: 3}, 429, ""},
		"too long": {&llm.PromptTooLongError{Tokens: 10, Limit: 9}, 400, ""},
		"no tools": {llm.ErrTools, 400, "tools"},
		"internal": {errors.New("secret"), 500, ""},
	} {
		said := ""
		w := worldOf(t, func(_ context.Context, _ llm.Request, stream func(string) error) (llm.Result, error) {
			if said != "" && stream != nil {
				if err := stream(said); err != nil {
					return llm.Result{}, err
				}
			}
			return llm.Result{}, c.err
		})
		for _, streams := range []string{"false", "true"} {
			r := post("/v1/chat/completions", `{"model":"default","messages":[{"role":"user","content":"x"}],"stream":`+
				streams+`}`)
			out := httptest.NewRecorder()
			w.ServeHTTP(out, r)
			e := failure(t, out.Body.String())
			if out.Code != c.status || e.Param != c.param || strings.Contains(e.Message, "secret") ||
				(out.Header().Get("Retry-After") != "") != (c.status == 429) {
				t.Errorf("%s: %d %v %+v", name, out.Code, out.Header(), e)
			}
		}
		said = "Well"
		status, body := do(t, w, post("/v1/chat/completions", `{"model":"default","stream":true,"messages":[{"role":`+
			`"user","content":"x"}]}`))
		events := strings.Split(strings.TrimSpace(body), "\n\n")
		e := failure(t, strings.TrimPrefix(events[len(events)-1], "data: "))
		if status != 200 || len(events) != 3 || strings.Contains(body, "[DONE]") ||
			strings.Contains(e.Message, "secret") {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
}

// TestChatEndsWithItsClient checks that the model's work ends as soon as the client leaves a stream.
func TestChatEndsWithItsClient(t *testing.T) {
	ended := make(chan error, 1)
	var once sync.Once
	w := worldOf(t, func(ctx context.Context, _ llm.Request, stream func(string) error) (llm.Result, error) {
		if stream != nil {
			once.Do(func() { _ = stream("word ") })
		}
		<-ctx.Done()
		ended <- ctx.Err()
		return llm.Result{Finish: llm.FinishCancelled}, ctx.Err()
	})
	server := httptest.NewServer(w)
	defer server.Close()
	for _, stream := range []string{"true", "false"} {
		ctx, leave := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/v1/chat/completions",
			strings.NewReader(`{"model":"default","messages":[{"role":"user","content":"x"}],"stream":`+stream+`}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		if stream == "false" {
			time.AfterFunc(50*time.Millisecond, leave)
		}
		answer, err := http.DefaultClient.Do(r)
		if stream == "true" {
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(answer.Body, make([]byte, 10)); err != nil {
				t.Fatal(err)
			}
			leave()
			_ = answer.Body.Close()
		} else if err == nil {
			_ = answer.Body.Close()
			t.Error("an answer came")
		}
		leave()
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the work goes on")
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestCompletions(t *testing.T) {
	w := worldOf(t, func(_ context.Context, r llm.Request, stream func(string) error) (llm.Result, error) {
		if stream != nil {
			for _, p := range []string{"a", "b"} {
				if err := stream(p); err != nil {
					return llm.Result{}, err
				}
			}
		}
		return llm.Result{Text: "ab", PromptTokens: 2, CompletionTokens: 2, Finish: llm.FinishLength,
			LogProbs: []llm.TokenLogProb{{Text: "a", LogProb: -1}, {Text: "b", LogProb: -2}}}, nil
	})
	status, body := do(t, w, post("/v1/completions", `{"model":"default","prompt":"Once","logprobs":0}`))
	a := as[openai.Completion](t, body)
	if status != 200 || a.Object != "text_completion" || a.Choices[0].Text != "ab" || a.Usage.TotalTokens != 4 ||
		*a.Choices[0].FinishReason != "length" || a.Choices[0].LogProbs.TextOffset[1] != 1 {
		t.Errorf("%d %s", status, body)
	}
	status, body = do(t, w, post("/v1/completions", `{"model":"default","prompt":"Once","stream":true,`+
		`"stream_options":{"include_usage":true}}`))
	if events := strings.Split(strings.TrimSpace(body), "\n\n"); status != 200 || len(events) != 5 ||
		!strings.Contains(events[0], `"text":"a"`) || !strings.Contains(events[2], `"finish_reason":"length"`) ||
		!strings.Contains(events[3], `"choices":[],"usage":{"prompt_tokens":2`) || events[4] != "data: [DONE]" {
		t.Errorf("%d %s", status, body)
	}
	status, body = do(t, w, post("/tokenize", `{"content":"a b c"}`))
	if tokens := as[openai.Tokenized](t, body); status != 200 || tokens.Count != 3 || tokens.MaxModelLen != 2048 {
		t.Errorf("%d %s", status, body)
	}
}

// full is a model with a full queue.
type full struct{ *doubles.Model }

func (full) Ready() error { return &llm.BusyError{Limit: 3, Retry: 4 * time.Second} }

// TestChatFromBaseIsBusy checks that a stream that cannot be answered is refused before its sources are sent.
func TestChatFromBaseIsBusy(t *testing.T) {
	w := newWorldOf(t, full{doubles.NewModel("x")})
	for _, stream := range []string{"true", "false"} {
		out := httptest.NewRecorder()
		w.ServeHTTP(out, post("/v1/chat/completions", `{"messages":[{"role":"user","content":"`+inScope+`"}],"stream":`+
			stream+`}`))
		if e := failure(t, out.Body.String()); out.Code != 429 || out.Header().Get("Retry-After") != "4" ||
			e.Code != "busy" || !strings.Contains(e.Message, "3") {
			t.Errorf("%d %v %s", out.Code, out.Header(), out.Body)
		}
	}
}

// TestPageMayUseTheClient checks that OpenAI's JavaScript client works in pages of a listed origin.
func TestPageMayUseTheClient(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Origins = []string{"https://example.org"} })
	r := httptest.NewRequest(http.MethodOptions, "http://localhost/v1/chat/completions", http.NoBody)
	r.Header.Set("Origin", "https://example.org")
	r.Header.Set("Access-Control-Request-Method", "POST")
	r.Header.Set("Access-Control-Request-Headers", "authorization, x-stainless-lang,x-stainless-os , x-other, "+
		"x-stainless-\r\n")
	out := httptest.NewRecorder()
	w.ServeHTTP(out, r)
	allowed := out.Header().Get("Access-Control-Allow-Headers")
	if out.Code != 204 || !strings.HasSuffix(allowed, "X-Request-Id, x-stainless-lang, x-stainless-os, x-stainless-") {
		t.Errorf("%d %q", out.Code, allowed)
	}
}

// TestLongPrompts checks that a text too long by its bytes is not tokenized, and that a client that sends its whole
// body before reading gets a response also above the limit.
func TestLongPrompts(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.Body = 1 << 20 })
	long := strings.Repeat("x", tokenBytes*2048+1)
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"model":"default","messages":[{"role":"user","content":"` + long + `"}]}`,
		"/v1/completions":      `{"prompt":"` + long + `"}`,
		"/tokenize":            `{"content":"` + long + `"}`,
	} {
		status, said := do(t, w, post(path, body))
		if e := failure(t, said); status != 400 || e.Code != "context_length_exceeded" ||
			!strings.Contains(e.Message, "262145 bytes") || !strings.Contains(e.Message, "262144 bytes") {
			t.Errorf("%s: %d %s", path, status, said)
		}
	}
	status, said := do(t, w, post("/v1/chat/completions", `{"messages":[{"role":"user","content":"`+long+`"}]}`))
	if e := failure(t, said); status != 400 || e.Code != "context_length_exceeded" {
		t.Errorf("%d %s", status, said)
	}
	if n := len(w.model.Requests()); n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
	server := httptest.NewServer(w)
	defer server.Close()
	c, err := net.Dial("tcp", server.Listener.Addr().String()) //nolint:noctx // a local server
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // it was only read
	_, err = c.Write([]byte("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n" +
		"Content-Type: application/json\r\nContent-Length: 20000000\r\n\r\n" + strings.Repeat(" ", 20000000)))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(c)
	if err != nil || !strings.HasPrefix(string(raw), "HTTP/1.1 413 ") ||
		!strings.Contains(string(raw), "20000000 bytes") {
		t.Errorf("%v: %s", err, raw)
	}
}

// TestErrorsTellNoFolders checks that errors name files without their folders.
func TestErrorsTellNoFolders(t *testing.T) {
	err := fmt.Errorf("llm: /opt/models/a.gguf: %w: see \"/srv/x/y.yaml\" and/or 1/2", llm.ErrTemplate)
	const want = `llm: a.gguf: no usable chat template: see "y.yaml" and/or 1/2`
	if e := asRequestError(err); e.Message != want || e.Status != 400 {
		t.Errorf("%q", e.Message)
	}
}
