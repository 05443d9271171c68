package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/llm"
)

func TestStreamsAnAnswer(t *testing.T) {
	s := serve(t, raw(": ping\r\n\r\n"+
		`data: {"choices":[{"index":0,"delta":{"role":"assistant","content":null}}]}`+"\r\n\r\n"+
		`data: {"choices":[{"index":0,"delta":{"content":"Grüß "}}]}`+"\r\n\r\n"+
		"data: {\"choices\":[\r\ndata: {\"index\":0,\"delta\":{\"content\":\"G\\u00f6tt\"}},{\"index\":1,\"delta\":{\"content\":\"other\"}}]}\r\n\r\n"+
		`data: {"choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}`+"\n\n"+
		`data: {"choices":[{"index":0,"delta":{"content":"😀"},"finish_reason":"stop"}]}`+"\n\n"+
		`data: {"choices":[],"usage":{"prompt_tokens":21,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":16}}}`+"\n\n"+
		"data: [DONE]\n\n"))
	g := open(t, s)
	var pieces []string // not guarded: the race detector would tell of another goroutine
	r, err := g.Generate(t.Context(), hello(), func(p string) error { pieces = append(pieces, p); return nil })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"Grüß ", "Gött", "😀"}, pieces); diff != "" {
		t.Error(diff)
	}
	if r.Text != "Grüß Gött😀" || r.Finish != llm.FinishStop || r.PromptTokens != 21 || r.CachedTokens != 16 ||
		r.CompletionTokens != 5 {
		t.Errorf("%+v", r)
	}
	if r.PromptTime <= 0 || r.DecodeTime <= 0 || r.QueueTime != 0 {
		t.Errorf("times: %v %v %v", r.QueueTime, r.PromptTime, r.DecodeTime)
	}
	got := s.last(t)
	if got.method != "POST" || got.path != "/v1/chat/completions" || got.auth != "Bearer "+key {
		t.Errorf("%+v", got)
	}
}

func TestConnectionIsUsedAgain(t *testing.T) {
	s := serve(t, says("stop", "a"))
	from := map[string]bool{}
	s.Config.Handler = func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			from[r.RemoteAddr] = true
			next.ServeHTTP(w, r)
		})
	}(s.Config.Handler)
	g := open(t, s)
	for range 3 {
		if _, err := g.Generate(t.Context(), hello(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if len(from) != 1 {
		t.Errorf("%d connections for 3 requests", len(from))
	}
}

// sent makes a request and returns what the server got of it.
func sent(t *testing.T, e Extensions, req llm.Request) seen {
	t.Helper()
	s := serve(t, sends(`{"choices":[{"text":"x","delta":{"content":"x"},"finish_reason":"stop","logprobs":{"content":[{"token":"x","logprob":-1}]}}]}`))
	g := open(t, s, func(o *Options) { o.Extensions = e })
	if _, err := g.Generate(t.Context(), req, nil); err != nil {
		t.Fatal(err)
	}
	return s.last(t)
}

// TestSettingsAsSent compares bodies with those of the servers' documentation: OpenAI's API reference, llama-server's
// README, vLLM's pages on extra parameters and structured outputs.
func TestSettingsAsSent(t *testing.T) {
	messages := []llm.Message{{Role: llm.System, Content: "Be brief."}, {Role: llm.User, Content: "Hi"}}
	const chat = `"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}]`
	const plain = `"model":"m","stream":true,"stream_options":{"include_usage":true},"prompt":"Once"`
	full := llm.Request{Messages: messages, MaxTokens: 7, Temperature: .5, TopP: .9, Seed: 3, Stop: []string{"\n", "x"},
		FrequencyPenalty: .25, PresencePenalty: -1, LogProbs: true, Alternatives: 2, Priority: 5}
	more := full
	more.TopK, more.MinP, more.RepeatPenalty, more.Grammar, more.LogProbs, more.Alternatives = 40, .05, 1.1,
		`root ::= "a"`, false, 0
	const fullBody = `"max_tokens":7,"temperature":0.5,"top_p":0.9,"seed":3,"stop":["\n","x"],"frequency_penalty":0.25,"presence_penalty":-1`
	schema := json.RawMessage(`{"type":"object"}`)
	const format = `"response_format":{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":{"type":"object"}}}`
	for name, c := range map[string]struct {
		e    Extensions
		req  llm.Request
		path string
		want string
	}{
		"least": {"", llm.Request{Messages: messages}, "chat/completions",
			chat + `,"temperature":0,"seed":0`},
		"all of OpenAI": {"", full, "chat/completions", chat + `,"logprobs":true,"top_logprobs":2,` + fullBody},
		"top-p off": {"", llm.Request{Messages: messages, Temperature: 1}, "chat/completions",
			chat + `,"temperature":1,"top_p":1,"seed":0`},
		"greedy": {"", llm.Request{Messages: messages, TopK: 40, TopP: .5, MinP: .1, RepeatPenalty: 1},
			"chat/completions", chat + `,"temperature":0,"seed":0`},
		"schema": {"", llm.Request{Messages: messages, Schema: schema}, "chat/completions",
			chat + `,"temperature":0,"seed":0,` + format},
		"raw": {"", llm.Request{Prompt: "Once", MaxTokens: 9, LogProbs: true, Alternatives: 3},
			"completions", plain + `,"temperature":0,"seed":0,"max_tokens":9,"logprobs":3`},
		"llama-server": {LlamaServer, more, "chat/completions",
			chat + `,"top_k":40,"min_p":0.05,"repeat_penalty":1.1,"repeat_last_n":64,"grammar":"root ::= \"a\"",` +
				fullBody},
		"llama-server raw": {LlamaServer, llm.Request{Prompt: "Once", Schema: schema, LogProbs: true}, "completions",
			plain + `,"temperature":0,"seed":0,"repeat_penalty":1,"repeat_last_n":64,"json_schema":{"type":"object"},"logprobs":1,"n_probs":1`},
		"llama-server, off": {LlamaServer, llm.Request{Messages: messages, Temperature: 1}, "chat/completions",
			chat + `,"temperature":1,"top_p":1,"top_k":0,"min_p":0,"seed":0,"repeat_penalty":1,"repeat_last_n":64`},
		"vLLM": {VLLM, more, "chat/completions",
			chat + `,"top_k":40,"min_p":0.05,"repetition_penalty":1.1,"structured_outputs":{"grammar":"root ::= \"a\""},"guided_grammar":"root ::= \"a\"",` + fullBody},
		"vLLM raw": {VLLM, llm.Request{Prompt: "Once", MaxTokens: 3, Temperature: 1, Schema: schema},
			"completions",
			plain + `,"temperature":1,"top_p":1,"top_k":-1,"min_p":0,"seed":0,"repetition_penalty":1,"max_tokens":3,` +
				format},
		"invalid UTF-8 text": {"", llm.Request{Prompt: "O\xffnce", MaxTokens: 1}, "completions",
			strings.Replace(plain, "Once", "O\uFFFDnce", 1) + `,"temperature":0,"seed":0,"max_tokens":1`},
	} {
		t.Run(name, func(t *testing.T) {
			var want map[string]any
			off := `,"reasoning_effort":"none"`
			if c.e != "" {
				off = `,"chat_template_kwargs":{"enable_thinking":false,"thinking":false}`
			}
			if c.req.Prompt != "" {
				off = ""
			}
			if err := json.Unmarshal([]byte("{"+c.want+off+"}"), &want); err != nil {
				t.Fatal(err)
			}
			got := sent(t, c.e, c.req)
			if diff := cmp.Diff(want, got.body); diff != "" || got.path != "/v1/"+c.path {
				t.Errorf("%s %s", got.path, diff)
			}
		})
	}
}

// A server that can keeps the cache of a scope apart; what another one finds in its cache is not told.
func TestScopes(t *testing.T) {
	usage := `{"choices":[],"usage":{"prompt_tokens":21,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":16}}}`
	for e, setting := range map[Extensions]string{NoExtensions: "", LlamaServer: "cache_prompt", VLLM: "cache_salt"} {
		s := serve(t, sends(`{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}`, usage))
		g := open(t, s, func(o *Options) { o.Extensions = e })
		salts := map[any]bool{}
		for _, scope := range []*llm.Scope{nil, llm.NewScope(), llm.NewScope()} {
			r, err := g.Generate(scope.In(t.Context()), hello(), nil)
			if err != nil {
				t.Fatal(err)
			}
			body := s.all()[len(s.all())-1].body
			_, told := body[setting]
			if told != (scope != nil && setting != "") || body["cache_prompt"] == true {
				t.Errorf("%q: %v", e, body)
			}
			salts[body["cache_salt"]] = true
			if hidden := scope != nil && e == NoExtensions; (r.CachedTokens == 0) != hidden {
				t.Errorf("%q: %d tokens in the cache", e, r.CachedTokens)
			}
			if scope != nil {
				if prompt, reused, completion := scope.Tokens(); prompt != 21 || reused != int64(r.CachedTokens) ||
					completion != 5 {
					t.Errorf("%q: %d, %d, %d tokens are counted", e, prompt, reused, completion)
				}
			}
		}
		if e == VLLM && len(salts) != 3 {
			t.Errorf("%v", salts)
		}
	}
}

func TestWhatAServerDoesNotKnowIsRefused(t *testing.T) {
	s := serve(t, says("stop", "a"))
	base := hello()
	base.Temperature = 1
	for name, c := range map[string]struct {
		says   string
		change func(*llm.Request)
	}{
		"top-k":          {"top-k 40", func(r *llm.Request) { r.TopK = 40 }},
		"min-p":          {"min-p 0.1", func(r *llm.Request) { r.MinP = .1 }},
		"repeat penalty": {"repeat penalty 1.1", func(r *llm.Request) { r.RepeatPenalty = 1.1 }},
		"n-grams":        {"n-grams (3)", func(r *llm.Request) { r.NoRepeatNGram = 3 }},
		"grammar":        {"grammar", func(r *llm.Request) { r.Grammar = "root ::= [a]" }},
		"raw schema": {"schema for a raw prompt", func(r *llm.Request) {
			r.Messages, r.Prompt, r.Schema = nil, "p", json.RawMessage("{}")
		}},
		"raw, no limit":   {"max tokens", func(r *llm.Request) { r.Messages, r.Prompt = nil, "p" }},
		"nothing":         {"either messages or a prompt", func(r *llm.Request) { r.Messages = nil }},
		"both":            {"either messages or a prompt", func(r *llm.Request) { r.Prompt = "p" }},
		"role":            {`role "robot"`, func(r *llm.Request) { r.Messages = []llm.Message{{Role: "robot"}} }},
		"NaN":             {"temperature NaN", func(r *llm.Request) { r.Temperature = math.NaN() }},
		"top-p":           {"top-p 2", func(r *llm.Request) { r.TopP = 2 }},
		"penalty":         {"frequency penalty 3", func(r *llm.Request) { r.FrequencyPenalty = 3 }},
		"alternatives":    {"need LogProbs", func(r *llm.Request) { r.Alternatives = 1 }},
		"21 alternatives": {"21 alternatives", func(r *llm.Request) { r.LogProbs, r.Alternatives = true, 21 }},
		"seed":            {"seed", func(r *llm.Request) { r.Seed = math.MaxUint32 }},
		"stop":            {"stop string", func(r *llm.Request) { r.Stop = []string{""} }},
		"schema":          {"schema", func(r *llm.Request) { r.Schema = json.RawMessage(`[1]`) }},
		"two forms": {"either a grammar or a schema", func(r *llm.Request) {
			r.Grammar, r.Schema = "x", json.RawMessage("{}")
		}},
	} {
		req := base
		c.change(&req)
		if _, err := open(t, s).Generate(t.Context(), req, nil); !errors.Is(err, llm.ErrOptions) ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(s.all()); n > 0 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestARawPromptOfVLLMTakesWhatIsLeft(t *testing.T) {
	s := serve(t, object(`{"count":60,"max_model_len":100,"tokens":[1]}`),
		sends(`{"choices":[{"text":"x","finish_reason":"length"}]}`))
	g := open(t, s, func(o *Options) { o.Extensions = VLLM })
	r, err := g.Generate(t.Context(), llm.Request{Prompt: "p"}, nil)
	if err != nil || r.Finish != llm.FinishContext || s.last(t).body["max_tokens"] != 40.0 ||
		s.all()[0].path != "/tokenize" {
		t.Errorf("%+v %v %+v", r, err, s.all())
	}
	s = serve(t, object(`{"count":100}`))
	g = open(t, s, func(o *Options) { o.Extensions = VLLM })
	var long *llm.PromptTooLongError
	if _, err := g.Generate(t.Context(), llm.Request{Prompt: "p"}, nil); !errors.As(err, &long) || long.Tokens != 100 ||
		long.Limit != 99 {
		t.Errorf("%v", err)
	}
}

func TestRandomSeedIsTold(t *testing.T) {
	s := serve(t, says("stop", "a"))
	req := hello()
	req.Seed = -1
	r, err := open(t, s).Generate(t.Context(), req, nil)
	if err != nil || r.Seed < 0 || float64(r.Seed) != s.last(t).body["seed"] {
		t.Errorf("%d, sent %v, %v", r.Seed, s.last(t).body["seed"], err)
	}
}

func TestFinishReasons(t *testing.T) {
	const used = `{"choices":[],"usage":{"completion_tokens":%d}}`
	for name, c := range map[string]struct {
		reason    string
		maxTokens int
		used      int
		want      llm.FinishReason
		err       error
	}{
		"end of turn":         {"stop", 0, 5, llm.FinishStop, nil},
		"limit":               {"length", 5, 5, llm.FinishLength, nil},
		"limit, no usage":     {"length", 5, 0, llm.FinishLength, nil},
		"context":             {"length", 0, 5, llm.FinishContext, nil},
		"context below limit": {"length", 9, 5, llm.FinishContext, nil},
		"none":                {"", 0, 5, "", ErrResponse},
		"filter":              {"content_filter", 0, 5, "", &APIError{Code: "content_filter"}},
	} {
		s := serve(t, sends(delta("a"), fmt.Sprintf(`{"choices":[{"index":0,"delta":{},"finish_reason":%q}]}`,
			c.reason), fmt.Sprintf(used, c.used)))
		req := hello()
		req.MaxTokens = c.maxTokens
		r, err := open(t, s).Generate(t.Context(), req, nil)
		var api *APIError
		ok := errors.Is(err, c.err)
		if want, is := c.err.(*APIError); is {
			ok = errors.As(err, &api) && api.Code == want.Code
		}
		if r.Finish != c.want || !ok || r.Text != "a" {
			t.Errorf("%s: %+v %v", name, r, err)
		}
	}
}

func TestARefusalIsAnError(t *testing.T) {
	s := serve(t, sends(`{"choices":[{"delta":{"refusal":"I will not."},"finish_reason":"stop"}]}`))
	var api *APIError
	if _, err := open(t, s).Generate(t.Context(), hello(), nil); !errors.As(err, &api) || api.Type != "refusal" ||
		api.Message != "I will not." {
		t.Errorf("%v", err)
	}
}

func TestMaxCompletionTokensWhereAServerWantsThem(t *testing.T) {
	s := serve(t, status(400,
		`{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","type":"invalid_request_error","param":"max_tokens","code":"unsupported_parameter"}}`), says("stop", "a"))
	g := open(t, s)
	req := hello()
	req.MaxTokens = 5
	for range 2 {
		if _, err := g.Generate(t.Context(), req, nil); err != nil {
			t.Fatal(err)
		}
	}
	all := s.all()
	if len(all) != 3 || all[0].body["max_tokens"] != 5.0 {
		t.Fatalf("%+v", all)
	}
	for _, x := range all[1:] {
		if x.body["max_completion_tokens"] != 5.0 || x.body["max_tokens"] != nil {
			t.Errorf("%v", x.body)
		}
	}
	stubborn := serve(t, status(400, `{"error":{"message":"max_completion_tokens is too large"}}`))
	var api *APIError
	if _, err := open(t, stubborn).Generate(t.Context(), req, nil); !errors.As(err, &api) || len(stubborn.all()) != 2 {
		t.Errorf("%v after %d requests", err, len(stubborn.all()))
	}
}

func TestLogProbs(t *testing.T) {
	const half = math.Ln2
	chat := sends(fmt.Sprintf(`{"choices":[{"delta":{"content":"a"},"logprobs":{"content":[{"id":7,"token":"a","logprob":%v,"bytes":[97],"top_logprobs":[{"id":9,"token":"c","logprob":-3},{"id":7,"token":"a","logprob":-0.7},{"id":8,"token":"b","logprob":-2}]}]}}]}`, -half),
		`{"choices":[{"delta":{"content":"ü"},"logprobs":{"content":[{"token":"\ufffd","logprob":-1,"bytes":[195]},{"token":"\ufffd","logprob":0,"bytes":[188]}]},"finish_reason":"stop"}]}`)
	req := hello()
	req.LogProbs, req.Alternatives = true, 2
	r, err := open(t, serve(t, chat)).Generate(t.Context(), req, nil)
	want := []llm.TokenLogProb{
		{Token: 7, Text: "a", LogProb: -half, Top: []llm.TokenLogProb{{Token: 7, Text: "a", LogProb: -.7},
			{Token: 8, Text: "b", LogProb: -2}}},
		{Token: -1, Text: "\xc3", LogProb: -1}, {Token: -1, Text: "\xbc"},
	}
	if diff := cmp.Diff(want, r.LogProbs); diff != "" || err != nil {
		t.Error(err, diff)
	}
	plain := sends(`{"choices":[{"text":"xy","logprobs":{"tokens":["x","y"],"token_logprobs":[-1,-2],"top_logprobs":[{"x":-1,"q":-4},{"z":-1.5,"y":-2}],"text_offset":[0,1]},"finish_reason":"stop"}]}`)
	r, err = open(t, serve(t, plain)).Generate(t.Context(),
		llm.Request{Prompt: "p", MaxTokens: 2, LogProbs: true, Alternatives: 1}, nil)
	want = []llm.TokenLogProb{
		{Token: -1, Text: "x", LogProb: -1, Top: []llm.TokenLogProb{{Token: -1, Text: "x", LogProb: -1}}},
		{Token: -1, Text: "y", LogProb: -2, Top: []llm.TokenLogProb{{Token: -1, Text: "z", LogProb: -1.5}}},
	}
	if diff := cmp.Diff(want, r.LogProbs); diff != "" || err != nil {
		t.Error(err, diff)
	}
	r, err = open(t, serve(t, says("stop", "a"))).Generate(t.Context(), req, nil)
	if !errors.Is(err, ErrResponse) || r.Text != "a" {
		t.Errorf("none were sent: %+v %v", r, err)
	}
}

// hanging sends one piece and then waits until the client goes.
func hanging(gone chan<- struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		flush(w, "data: "+delta("so far")+"\n\n")
		<-r.Context().Done()
		close(gone)
	}
}

func TestCancelledInTheMiddle(t *testing.T) {
	refused := errors.New("enough")
	for name, how := range map[string]struct {
		act  func(cancel context.CancelFunc, g *Generator) error
		want error
	}{
		"context": {func(cancel context.CancelFunc, _ *Generator) error { cancel(); return nil }, context.Canceled},
		"stream":  {func(context.CancelFunc, *Generator) error { return refused }, refused},
		"close":   {func(_ context.CancelFunc, g *Generator) error { return g.Close() }, llm.ErrClosed},
	} {
		gone := make(chan struct{})
		g := open(t, serve(t, hanging(gone)))
		ctx, cancel := context.WithCancel(t.Context())
		r, err := g.Generate(ctx, hello(), func(string) error { return how.act(cancel, g) })
		if err != how.want || r.Text != "so far" || r.Finish != llm.FinishCancelled {
			t.Errorf("%s: %+v %v", name, r, err)
		}
		<-gone // the connection is closed
		cancel()
	}
}

func TestCancelledWhileWaiting(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() })
	r, err := open(t, s).Generate(ctx, hello(), nil)
	if err != context.Canceled || r.Finish != llm.FinishCancelled {
		t.Errorf("%+v %v", r, err)
	}
	g := open(t, s)
	g.Close()
	if _, err := g.Generate(t.Context(), hello(), nil); !errors.Is(err, llm.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if _, err := g.Generate(ctx, hello(), nil); !errors.Is(err, context.Canceled) && !errors.Is(err, llm.ErrClosed) {
		t.Errorf("ended before: %v", err)
	}
}
