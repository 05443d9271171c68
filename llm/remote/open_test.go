package remote

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/llm"
)

// site answers by path; other paths are 404.
func site(pages map[string]string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		page, ok := pages[r.URL.Path]
		if !ok {
			http.Error(w, `{"error":{"message":"File Not Found","type":"not_found_error","code":404}}`,
				http.StatusNotFound)
			return
		}
		object(page)(w, r)
	}
}

// The answers are of the shape that the servers' documentation shows.
func TestOpenAsksForModelAndContext(t *testing.T) {
	for name, c := range map[string]struct {
		pages  map[string]string
		change func(*Options)
		model  string
		window int
	}{
		"OpenAI": {
			map[string]string{"/v1/models": `{"object":"list","data":[` +
				`{"id":"gpt-x","object":"model","owned_by":"openai"},{"id":"gpt-y"}]}`},
			func(*Options) {}, "gpt-x", 8192},
		"vLLM": {
			map[string]string{"/v1/models": `{"data":[{"id":"org/a","max_model_len":1024},` +
				`{"id":"org/b","max_model_len":2048}]}`},
			func(o *Options) { o.Model = "org/b" }, "org/b", 2048},
		"llama-server": {
			map[string]string{"/v1/models": `{"data":[{"id":"x.gguf","meta":{"n_ctx_train":8000}}]}`,
				"/props": `{"default_generation_settings":{"n_ctx":512},"total_slots":4}`},
			func(o *Options) { o.Extensions = LlamaServer }, "x.gguf", 512},
		"llama-server, no /props": {
			map[string]string{"/v1/models": `{"data":[{"id":"x.gguf","meta":{"n_ctx_train":8000}}]}`},
			func(o *Options) { o.Extensions = LlamaServer }, "x.gguf", 8000},
		"a router": {map[string]string{"/api/v1/models": `{"data":[{"id":"a/b","context_length":99999}]}`},
			func(o *Options) {
				o.BaseURL += "/api/v1/"
			}, "a/b", 99999},
		"no list": {map[string]string{}, func(o *Options) { o.Model = "mine" }, "mine", 8192},
		"an unlisted model": {map[string]string{"/v1/models": `{"data":[{"id":"a","max_model_len":50}]}`},
			func(o *Options) { o.Model = "mine" }, "mine", 8192},
		"a nonsensical context": {
			map[string]string{"/v1/models": `{"data":[{"id":"a","max_model_len":-5,"context_length":3}]}`},
			func(*Options) {}, "a", 8192},
		"stated": {map[string]string{"/v1/models": `{"data":[{"id":"a","max_model_len":50}]}`},
			func(o *Options) { o.ContextSize = 77 }, "a", 77},
	} {
		s := serve(t, site(c.pages))
		o := Options{BaseURL: s.URL, APIKey: key, Logger: quiet()}
		c.change(&o)
		g, err := Open(t.Context(), o)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if g.Info().Name != c.model || g.ContextSize() != c.window || s.all()[0].auth != "Bearer "+key {
			t.Errorf("%s: %q, %d", name, g.Info().Name, g.ContextSize())
		}
		g.Close()
	}
}

func TestOpenFails(t *testing.T) {
	t.Setenv("REMOTE_TEST_EMPTY", " ")
	t.Setenv("REMOTE_TEST_BROKEN", "two words"+key)
	s := serve(t, status(401, `{"error":{"message":"no","code":"invalid_api_key"}}`))
	empty := serve(t, object(`{"data":[]}`))
	for name, c := range map[string]struct {
		o    Options
		want error
		says string
	}{
		"no URL":         {Options{}, llm.ErrOptions, "does not begin with http"},
		"no scheme":      {Options{BaseURL: "api.example.com/v1"}, llm.ErrOptions, "does not begin with http"},
		"another scheme": {Options{BaseURL: "ftp://example.com"}, llm.ErrOptions, "does not begin with http"},
		"a password": {Options{BaseURL: "http://me:" + key + "@example.com"}, llm.ErrOptions,
			"give the key as a key"},
		"a broken one": {Options{BaseURL: "http://me:" + key + "@exa mple.com"}, llm.ErrOptions, "not a URL"},
		"a query":      {Options{BaseURL: "http://example.com/v1?key=" + key}, llm.ErrOptions, "query or fragment"},
		"a fragment":   {Options{BaseURL: "http://example.com/v1#m"}, llm.ErrOptions, "query or fragment"},
		"context":      {Options{BaseURL: s.URL, ContextSize: 3}, llm.ErrOptions, "context size 3"},
		"extensions":   {Options{BaseURL: s.URL, Extensions: "all"}, llm.ErrOptions, `"all"`},
		"estimate":     {Options{BaseURL: s.URL, TokenEstimate: 100}, llm.ErrOptions, "100 bytes"},
		"timeout":      {Options{BaseURL: s.URL, Timeout: -1}, llm.ErrOptions, "negative"},
		"answer":       {Options{BaseURL: s.URL, MaxResponse: -1}, llm.ErrOptions, "negative"},
		"two keys":     {Options{BaseURL: s.URL, APIKey: key, APIKeyEnv: "X"}, llm.ErrOptions, "not both"},
		"variable": {Options{BaseURL: s.URL, APIKeyEnv: "REMOTE_TEST_EMPTY"}, llm.ErrOptions,
			"REMOTE_TEST_EMPTY"},
		"a broken key": {Options{BaseURL: s.URL, APIKeyEnv: "REMOTE_TEST_BROKEN"}, llm.ErrOptions, "no key has"},
		"a header":     {Options{BaseURL: s.URL, APIKey: key + "\r\nHost: evil"}, llm.ErrOptions, "no key has"},
		"wrong key":    {Options{BaseURL: s.URL, APIKey: key, Model: "m"}, nil, "HTTP 401"},
		"no model":     {Options{BaseURL: empty.URL}, llm.ErrModel, "lists no model"},
		"no list":      {Options{BaseURL: serve(t, object(`<html>`)).URL}, ErrResponse, "/v1/models"},
		"a huge list": {Options{BaseURL: serve(t, object(`{"data":"`+strings.Repeat("x", 5000)+`"}`)).URL,
			MaxResponse: 4000}, ErrTooLarge, "4000"},
	} {
		c.o.Logger = quiet()
		g, err := Open(t.Context(), c.o)
		if err == nil {
			g.Close()
		}
		if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) ||
			strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestKeyFromTheEnvironment(t *testing.T) {
	t.Setenv("REMOTE_TEST_KEY", key+"\n")
	t.Setenv("OPENAI_API_KEY", "not asked for")
	s := serve(t, says("stop", "a"))
	for change, want := range map[string]string{"REMOTE_TEST_KEY": "Bearer " + key, "": ""} {
		if _, err := open(t, s, func(o *Options) {
			o.APIKey, o.APIKeyEnv = "", change
		}).Generate(t.Context(), hello(), nil); err != nil || s.last(t).auth != want {
			t.Errorf("%v %q", err, s.last(t).auth)
		}
	}
}

func TestTheKeyIsNotShown(t *testing.T) {
	var log bytes.Buffer
	o := Options{BaseURL: "http://example.invalid", Model: "m", ContextSize: 99, APIKey: key, Logger: logTo(&log)}
	g, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if !strings.Contains(log.String(), "in the clear") {
		t.Errorf("no warning: %q", log.String())
	}
	o.Logger = nil
	logTo(&log).Info("x", slog.Any("options", o), slog.Any("key", o.APIKey), slog.Any("g", g))
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	all := log.String() + string(text)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		all += fmt.Sprintf(verb+verb+verb, o, o.APIKey, g)
	}
	if strings.Contains(all, key) || strings.Contains(all, fmt.Sprintf("%x", key)) {
		t.Error(all)
	}
	if Secret("").String() != "(not set)" || o.APIKey.String() != "(set)" {
		t.Error(o.APIKey)
	}
}

func TestCountTokens(t *testing.T) {
	llama := serve(t, object(`{"tokens":[1,{"id":2,"piece":"x"},3]}`))
	vllm := serve(t, object(`{"count":4,"max_model_len":10,"tokens":[1,2,3,4]}`))
	for name, c := range map[string]struct {
		s    *server
		o    func(*Options)
		want int
		err  error
	}{
		"llama-server":   {llama, func(o *Options) { o.Extensions = LlamaServer }, 3, nil},
		"vLLM":           {vllm, func(o *Options) { o.Extensions, o.TokenEstimate = VLLM, 1 }, 4, nil},
		"estimate":       {llama, func(o *Options) { o.TokenEstimate = 2.5 }, 5, nil}, // 11 bytes
		"none":           {llama, func(*Options) {}, 0, ErrNoTokenizer},
		"another server": {serve(t, object(`{}`)), func(o *Options) { o.Extensions = LlamaServer }, 0, ErrResponse},
		"yet another": {serve(t, object(`{"count":-4}`)), func(o *Options) {
			o.Extensions = VLLM
		}, 0, ErrResponse},
		"a failing server": {serve(t, func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		}), func(o *Options) {
			o.Extensions, o.Timeout = VLLM, 20*time.Millisecond
		}, 0, ErrTimeout},
	} {
		g := open(t, c.s, c.o)
		n, err := g.CountTokens("Hello, ünd")
		if n != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
	if x := llama.last(t); x.path != "/tokenize" || x.body["content"] != "Hello, ünd" || x.body["add_special"] != true {
		t.Errorf("%+v", x)
	}
	if x := vllm.last(t); x.path != "/tokenize" || x.body["prompt"] != "Hello, ünd" ||
		x.body["add_special_tokens"] != true || x.body["model"] != "m" {
		t.Errorf("%+v", x)
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string][3]any{
		"https://host/v1#org/model:7b": {"https://host/v1", "org/model:7b", true},
		"HTTP://host":                  {"HTTP://host", "", true},
		"SmolLM2-135M-Instruct":        {"", "", false},
		"/models/http://x.gguf":        {"", "", false},
	} {
		if base, model, ok := SplitName(name); base != want[0] || model != want[1] || ok != want[2] {
			t.Errorf("%s: %q %q %v", name, base, model, ok)
		}
	}
	for url, want := range map[string]struct {
		endpoint string
		local    bool
	}{
		"http://localhost:8080":       {"http://localhost:8080/v1", true},
		"http://[::1]:1/":             {"http://[::1]:1/v1", true},
		"http://127.8.0.1/api":        {"http://127.8.0.1/api", true},
		"https://api.example.com/v1/": {"https://api.example.com/v1", false},
		"http://192.168.1.7":          {"http://192.168.1.7/v1", false},
	} {
		g, err := Open(t.Context(), Options{BaseURL: url, Model: "m", ContextSize: 99, TokenEstimate: 3})
		if err != nil {
			t.Fatal(err)
		}
		if g.Endpoint() != want.endpoint || g.Local() != want.local ||
			strings.Contains(g.Notice(), "leaves this machine") == want.local ||
			!strings.Contains(g.Notice(), "at 3 bytes") {
			t.Errorf("%s: %s, %v, %s", url, g.Endpoint(), g.Local(), g.Notice())
		}
		g.Close()
	}
}
