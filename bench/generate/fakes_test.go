package generate

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-rag/sluice/llm"
)

// If this is set, the test program acts as a competitor: worker, llama-server or llama-bench, and a mode.
const envFake = "SLUICE_GENERATE_FAKE"

func TestMain(m *testing.M) {
	switch role, mode, _ := strings.Cut(os.Getenv(envFake), " "); role {
	case "worker":
		if err := serve(context.Background(), os.Stdin, os.Stdout, openEcho); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	case LlamaServer:
		fakeServer(mode)
		return
	case LlamaBench:
		fakeBench(mode)
		return
	}
	goleak.VerifyTestMain(m)
}

// echo is a language model that repeats its prompt's last word; a word is a token.
type echo struct{ seen atomic.Int64 }

func openEcho(_ context.Context, path string, o llm.Options) (generator, error) {
	if o.GPULayers > 0 && o.GPULibrary != "" {
		return nil, llm.ErrGPU
	}
	if path != "echo.gguf" {
		return nil, errors.New("no such model: " + path)
	}
	if o.CacheTokens != o.Slots*o.ContextSize || o.BatchSize > o.CacheTokens {
		return nil, fmt.Errorf("a cache of %+v", o)
	}
	return &echo{}, nil
}

func (e *echo) Close() error     { return nil }
func (e *echo) ContextSize() int { return 1 << 20 }
func (e *echo) Info() llm.Info {
	return llm.Info{Name: "echo", Description: "a test model", SHA256: "e3b0", Bytes: 1e6}
}
func (e *echo) CountTokens(text string) (int, error) { return len(strings.Fields(text)), nil }

func (e *echo) Generate(ctx context.Context, r llm.Request, stream func(string) error) (llm.Result, error) {
	words := strings.Fields(r.Prompt)
	res := llm.Result{PromptTokens: len(words), CachedTokens: len(words) / 2, Finish: llm.FinishLength,
		PromptTime: 10 * time.Millisecond}
	for range r.MaxTokens {
		piece := " " + words[len(words)-1]
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return res, ctx.Err()
		}
		if err := stream(piece); err != nil {
			return res, err
		}
		res.Text += piece
		res.CompletionTokens++
	}
	res.DecodeTime = time.Duration(res.CompletionTokens-1) * 2 * time.Millisecond
	return res, nil
}

// fakeServer answers as llama-server does: the events have its form. At first it still loads its model.
func fakeServer(mode string) {
	f := flag.NewFlagSet(LlamaServer, flag.ExitOnError)
	host, port := f.String("host", "", ""), f.String("port", "", "")
	for _, name := range []string{"m", "np", "c", "b", "ub", "t", "tb", "lv", "cache-ram"} {
		f.String(name, "", "")
	}
	for _, name := range []string{"no-kv-unified", "cont-batching", "cache-prompt", "no-ui", "no-slots", "offline",
		"version"} {
		f.Bool(name, false, "")
	}
	if err := f.Parse(os.Args[1:]); err != nil || mode == "dies" {
		fmt.Fprintln(os.Stderr, "some log\ncannot load the model")
		os.Exit(1)
	}
	if f.Lookup("version").Value.String() == "true" {
		fmt.Fprintln(os.Stderr, "version: 0.5.0-dev (build 1, commit 0c1e5709)\nbuilt with GNU 12.2.0 for Linux x86_64")
		return
	}
	var asked atomic.Int64
	http.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"error":{"message":"Loading model","type":"unavailable_error","code":503}}`)
		}
	})
	http.HandleFunc("POST /completion", func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Prompt  string `json:"prompt"`
			Predict int    `json:"n_predict"`
		}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		words := strings.Fields(q.Prompt)
		last := words[len(words)-1]
		switch mode {
		case "refuses":
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":{"code":400,"message":"the request exceeds the available context size",`+
				`"type":"exceed_context_size_error"}}`)
			return
		case "sleeps":
			<-r.Context().Done()
			return
		case "differs":
			last = "other"
		}
		for i := range q.Predict {
			fmt.Fprintf(w,
				"data: {\"content\":\" %s\",\"stop\":false,\"tokens_predicted\":%d,\"tokens_evaluated\":%d}\n\n",
				last, i+1, len(words))
			if mode == "breaks" {
				return
			}
		}
		fmt.Fprintf(w,
			"data: {\"content\":\"\",\"stop\":true,\"stop_type\":\"limit\",\"tokens_predicted\":%d,"+
				"\"tokens_evaluated\":%d,\"timings\":{\"cache_n\":1,\"prompt_ms\":2.5,\"predicted_ms\":4}}\n\n",
			q.Predict, len(words))
	})
	fmt.Fprintln(os.Stderr, http.ListenAndServe(net.JoinHostPort(*host, *port), nil))
	os.Exit(1)
}

func fakeBench(mode string) {
	f := flag.NewFlagSet(LlamaBench, flag.ExitOnError)
	p, n := f.Int("p", 0, ""), f.Int("n", 0, "")
	for _, name := range []string{"m", "b", "ub", "t", "r", "o"} {
		f.String(name, "", "")
	}
	if err := f.Parse(os.Args[1:]); err != nil || mode == "dies" {
		fmt.Fprintln(os.Stderr, "error: failed to load model")
		os.Exit(1)
	}
	if mode == "other test" {
		*p++
	}
	fmt.Printf(`[ {"build_commit":"0c1e5709","n_prompt":%d,"n_gen":%d,`+
		`"samples_ns":[ 1000000 ],"samples_ts":[ 250.0 ]} ]`,
		*p, *n)
}

// tools makes a folder of programs that are this one in a role; "" leaves a program out.
func tools(t *testing.T, modes map[string]string) string {
	t.Helper()
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("SKIP: needs a POSIX system")
	}
	dir := t.TempDir()
	for name, mode := range modes {
		text := fmt.Sprintf("#!/bin/sh\n%s='%s %s' exec '%s' \"$@\"\n", envFake, name, mode, os.Args[0])
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// newSession returns one of the doubles, with a worker of its own process.
func newSession(t *testing.T, modes map[string]string) *session {
	t.Helper()
	modes["worker"] = "" // a program like the others
	dir := tools(t, modes)
	s := &session{missing: map[string]bool{}, report: &Report{Versions: map[string]string{}}, o: Options{
		Model: "echo.gguf", Peers: Peers(), Concurrency: []int{3}, Threads: 1, PromptTokens: []int{20},
		Tokens:       []int{4},
		PrefixTokens: 30, Batch: 8, Rounds: 2, Tools: dir, Worker: []string{filepath.Join(dir, "worker")},
	}}
	if err := s.o.check(); err != nil {
		t.Fatal(err)
	}
	s.report.Settings = Settings{Threads: 1, Batch: 8, Rounds: 2, PromptTokens: s.o.PromptTokens, Tokens: s.o.Tokens,
		PrefixTokens: 30}
	return s
}
