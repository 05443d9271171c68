package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/llm"
)

// startLlama starts llama.cpp's own server with the default model, two slots of 256 tokens, and returns its URL.
func startLlama(t *testing.T) string {
	t.Helper()
	program, err := filepath.Abs("../../build/out/llama-server")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		t.Skip("SKIP: llama-server is not built; the benches of generation build it")
	}
	gguf, err := models.LocateGGUF("SmolLM2-135M-Instruct")
	if err != nil {
		t.Skipf("SKIP: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	cmd := exec.Command(program, "-m", gguf, "-c", "512", "-np", "2", "-t", "1", "--host", "127.0.0.1", "--port", port,
		"--api-key", key, "--alias", "smol", "--no-webui")
	cmd.Stdout, cmd.Stderr = io.Discard, io.Discard
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return "http://127.0.0.1:" + port
}

func openLlama(t *testing.T, e Extensions) *Generator {
	t.Helper()
	// it may take a while to come up
	o := Options{BaseURL: startLlama(t), APIKey: key, Extensions: e, Retries: 100, backoff: 20 * time.Millisecond,
		Logger: quiet()}
	g, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

// TestRealServer checks what the other tests assume about servers on one that exists.
func TestRealServer(t *testing.T) {
	g := openLlama(t, LlamaServer)
	if g.Info().Name != "smol" || g.ContextSize() != 256 {
		t.Fatalf("%+v, context %d", g.Info(), g.ContextSize())
	}
	chat := llm.Request{Messages: []llm.Message{{Role: llm.User,
		Content: "What is the capital of France? Say it in one sentence."}}, MaxTokens: 24}
	generate := func(r llm.Request) llm.Result {
		t.Helper()
		var got strings.Builder
		x, err := g.Generate(t.Context(), r, func(p string) error { got.WriteString(p); return nil })
		if err != nil || x.Text != got.String() || x.PromptTokens == 0 || x.CompletionTokens == 0 {
			t.Fatalf("%+v %v", x, err)
		}
		return x
	}
	first := generate(chat)
	if !strings.Contains(first.Text, "Paris") || first.Finish != llm.FinishStop {
		t.Errorf("%+v", first)
	}
	if again := generate(chat); again.Text != first.Text || again.CachedTokens == 0 {
		t.Errorf("%+v", again)
	}
	r := chat
	r.MaxTokens = 2
	if x := generate(r); x.Finish != llm.FinishLength || x.CompletionTokens != 2 {
		t.Errorf("%+v", x)
	}
	r = chat
	r.Grammar = `root ::= "yes" | "no"`
	if x := generate(r); x.Text != "yes" && x.Text != "no" {
		t.Errorf("a grammar gives %q", x.Text)
	}
	schema := json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer","minimum":0,"maximum":9}},"required":["n"],"additionalProperties":false}`)
	for _, r := range []llm.Request{{Messages: chat.Messages, Schema: schema, MaxTokens: 60},
		{Prompt: "A number: ", Schema: schema, MaxTokens: 60}} {
		var v struct{ N *int }
		if x := generate(r); json.Unmarshal([]byte(x.Text), &v) != nil || v.N == nil {
			t.Errorf("a schema gives %q", x.Text)
		}
	}
	random := llm.Request{Prompt: "Once upon a time", MaxTokens: 12, Temperature: 1.5, TopK: 100, RepeatPenalty: 1.1,
		Seed: llm.MaxSeed}
	a, b := generate(random), generate(random)
	random.Seed = 7
	if c := generate(random); a.Text != b.Text || a.Text == c.Text {
		t.Errorf("seeds: %q %q %q", a.Text, b.Text, c.Text)
	}
	stop := llm.Request{Prompt: "1, 2, 3, 4, 5, 6,", MaxTokens: 40, Stop: []string{" 9"}}
	if x := generate(stop); strings.Contains(x.Text, "9") || !strings.Contains(x.Text, "8") ||
		x.Finish != llm.FinishStop {
		t.Errorf("%+v", x)
	}
	if n, err := g.CountTokens(stop.Prompt); err != nil || n != generate(stop).PromptTokens {
		t.Errorf("%d tokens, %v", n, err)
	}
}

func TestRealLogProbs(t *testing.T) {
	g := openLlama(t, LlamaServer)
	for _, r := range []llm.Request{
		{Messages: hello().Messages, MaxTokens: 8, LogProbs: true, Alternatives: 3},
		{Prompt: "The sky is", MaxTokens: 8, LogProbs: true, Alternatives: 3},
		{Prompt: "The sky is", MaxTokens: 8, LogProbs: true},
	} {
		x, err := g.Generate(t.Context(), r, nil)
		if err != nil || len(x.LogProbs) < x.CompletionTokens-1 || len(x.LogProbs) == 0 {
			t.Fatalf("%+v %v", x, err)
		}
		var text strings.Builder
		for _, p := range x.LogProbs {
			text.WriteString(p.Text)
			if len(p.Top) != r.Alternatives || p.Token < 0 || p.LogProb > 0 ||
				len(p.Top) > 0 && (p.Top[0].Token != p.Token || p.Top[0].LogProb < p.Top[1].LogProb) {
				t.Errorf("%+v", p)
			}
		}
		if !strings.HasPrefix(text.String(), x.Text) {
			t.Errorf("%q has tokens %q", x.Text, text.String())
		}
	}
}

func TestRealFailures(t *testing.T) {
	g := openLlama(t, NoExtensions)
	long := llm.Request{Prompt: strings.Repeat("many words ", 300), MaxTokens: 1}
	var tooLong *llm.PromptTooLongError
	if _, err := g.Generate(t.Context(), long, nil); !errors.As(err, &tooLong) || tooLong.Tokens < 300 ||
		tooLong.Limit != 255 {
		t.Errorf("%v", err)
	}
	full := llm.Request{Prompt: "1, 2, 3, 4,", MaxTokens: 5000}
	if x, err := g.Generate(t.Context(), full, nil); err != nil || x.Finish != llm.FinishContext {
		t.Errorf("%s after %d tokens, %v", x.Finish, x.CompletionTokens, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	x, err := g.Generate(ctx, full, func(string) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) || x.Text == "" || x.Finish != llm.FinishCancelled {
		t.Errorf("%+v %v", x, err)
	}
	var api *APIError
	if _, err := Open(t.Context(), Options{BaseURL: g.Endpoint(), APIKey: "wrong-key-7", Model: "m",
		ContextSize: 99}); err != nil {
		t.Errorf("no request, yet %v", err)
	}
	stranger, err := Open(t.Context(), Options{BaseURL: g.Endpoint(), APIKey: "wrong-key-7", Model: "m",
		ContextSize: 99, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	if _, err := stranger.Generate(t.Context(), hello(), nil); !errors.As(err, &api) || api.Status != 401 {
		t.Errorf("%v", err)
	}
	elsewhere, err := Open(t.Context(), Options{BaseURL: g.Endpoint() + "/nowhere", APIKey: key, Model: "m",
		ContextSize: 99, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer elsewhere.Close()
	if _, err := elsewhere.Generate(t.Context(), hello(), nil); !errors.As(err, &api) || api.Status != 404 {
		t.Errorf("%v %s", err, fmt.Sprint(api))
	}
}
