//go:build native

package llm

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	llama "github.com/go-skynet/go-llama.cpp"
)

// Upstream's own Go API, over our library: what Generate does not use of it has to work all the same, or say no.

func upstream(t *testing.T) *handle {
	m := openModel(t, Options{ContextSize: 256, Slots: 1})
	h := <-m.free
	t.Cleanup(func() { m.free <- h })
	return h
}

func predict(t *testing.T, h *handle, prompt string, opts ...llama.PredictOption) string {
	t.Helper()
	var text strings.Builder
	opts = append([]llama.PredictOption{llama.SetTemperature(0), llama.SetPenalty(1), llama.SetTokens(24),
		llama.SetTokenCallback(func(p string) bool { text.WriteString(p); return true })}, opts...)
	if _, err := h.llama.Predict(prompt, opts...); err != nil {
		_, why := h.last()
		t.Fatal(err, why)
	}
	return text.String()
}

func refused(t *testing.T, h *handle, err error, reason string) {
	t.Helper()
	if _, why := h.last(); err == nil || why == nil || !strings.Contains(why.Error(), reason) {
		t.Errorf("want a refusal that says %q, got %v: %v", reason, err, why)
	}
}

func TestUpstreamPredict(t *testing.T) {
	h := upstream(t)
	text := predict(t, h, "Once upon a time")
	// The string that Predict returns is cut to upstream's buffer of Tokens bytes and trimmed by upstream's Go code.
	got, err := h.llama.Predict("Once upon a time", llama.SetTemperature(0), llama.SetPenalty(1), llama.SetTokens(24))
	if err != nil || got == "" || len(got) > 23 || !strings.HasPrefix(strings.TrimPrefix(text, " "), got) {
		t.Errorf("returned %q, streamed %q, %v", got, text, err)
	}
	n := 0
	_, err = h.llama.Predict("Once upon a time", llama.SetTokens(200), llama.SetTemperature(0),
		llama.SetTokenCallback(func(string) bool { n++; return n < 3 }))
	if res, _ := h.last(); err != nil || n != 3 || res.Finish != FinishCancelled {
		t.Errorf("a refusing callback: %d calls, %+v, %v", n, res, err)
	}
}

func TestUpstreamEval(t *testing.T) {
	h := upstream(t)
	if err := h.llama.Eval("Once upon a time there was a"); err != nil {
		t.Fatal(err)
	}
	predict(t, h, "Once upon a time there was a dog")
	if res, _ := h.last(); res.CachedTokens < 6 {
		t.Errorf("the evaluated prefix is not there: %+v", res)
	}
}

func TestUpstreamGrammar(t *testing.T) {
	h := upstream(t)
	grammar := `root ::= "{\"colour\": \"" ("red" | "green" | "blue") "\", \"n\": " [0-9]+ "}"`
	if got := predict(t, h, "A colour and a number:", llama.WithGrammar(grammar)); !regexp.MustCompile(`^\{"colour": "(red|green|blue)", "n": \d+`).MatchString(got) {
		t.Errorf("%q", got)
	}
	_, err := h.llama.Predict("x", llama.WithGrammar("root ::= ("))
	refused(t, h, err, "grammar")
}

// Selecting the best candidates before llama.cpp's samplers see them changes nothing. A bias of 0 switches it off.
func TestUpstreamSelectionIsExact(t *testing.T) {
	h := upstream(t)
	for name, opts := range map[string][]llama.PredictOption{
		"top-k":             {llama.SetTemperature(1), llama.SetTopK(40), llama.SetTopP(.95)},
		"penalties":         {llama.SetTemperature(1.3), llama.SetTopK(20), llama.SetPenalty(1.3), llama.SetFrequencyPenalty(.2), llama.SetPresencePenalty(.1)},
		"greedy, penalties": {llama.SetPenalty(1.3), llama.SetRepeat(-1)},
		"greedy":            {},
	} {
		for seed := range 2 {
			opts := append(opts, llama.SetSeed(seed), llama.SetTokens(16), llama.IgnoreEOS)
			selected := predict(t, h, "My favourite things are", opts...)
			all := predict(t, h, "My favourite things are", append(opts, llama.SetLogitBias("100+0"))...)
			if selected != all {
				t.Errorf("%s, seed %d: %q of the best, %q of all", name, seed, selected, all)
			}
		}
	}
}

func TestUpstreamSampling(t *testing.T) {
	h := upstream(t)
	for name, opt := range map[string]llama.PredictOption{
		"mirostat 1": llama.SetMirostat(1), "mirostat 2": llama.SetMirostat(2), "typical": llama.SetTypicalP(.9),
	} {
		if got := predict(t, h, "Once upon a time", llama.SetTemperature(.8), llama.SetSeed(3), opt); len(got) < 10 {
			t.Errorf("%s: %q", name, got)
		}
	}
	plain := predict(t, h, "The capital of France is")
	if got := predict(t, h, "The capital of France is", llama.SetLogitBias(tokenID(t, h, " Paris")+"-100")); !strings.HasPrefix(plain, " Paris") || strings.HasPrefix(got, " Paris") {
		t.Errorf("logit bias: %q became %q", plain, got)
	}
	for reason, opt := range map[string]llama.PredictOption{
		"logit bias is not": llama.SetLogitBias("nonsense"),
		"beyond the vocab":  llama.SetLogitBias("9999999+1"),
		"top_p":             llama.SetTopP(7),
		"mirostat":          llama.SetMirostat(9),
		"tail-free":         llama.SetTailFreeSamplingZ(.5),
		"negative prompt":   llama.SetNegativePromptScale(2),
		"prompt cache":      llama.SetPathPromptCache("cache.bin"),
	} {
		_, err := h.llama.Predict("x", opt)
		refused(t, h, err, reason)
	}
}

// tokenID returns the one token of a text, in digits.
func tokenID(t *testing.T, h *handle, text string) string {
	t.Helper()
	_, ids, err := h.llama.TokenizeString(text)
	if err != nil || len(ids) != 1 {
		t.Fatalf("%q is not one token: %v, %v", text, ids, err)
	}
	return strconv.Itoa(int(ids[0]))
}

// What binding.h declares and the library does not do yet fails, and says so.
func TestUpstreamUnsupported(t *testing.T) {
	l, err := llama.New(testModel(t), llama.EnableEmbeddings, llama.SetContext(64))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Free()
	if _, err := l.Embeddings("x", llama.SetTokens(1024)); err == nil {
		t.Error("Embeddings did nothing and said nothing")
	}
	if _, err := l.TokenEmbeddings([]int{1, 2}, llama.SetTokens(1024)); err == nil {
		t.Error("TokenEmbeddings did nothing and said nothing")
	}
	if _, err := l.SpeculativeSampling(l, "x", llama.SetTokens(8)); err == nil {
		t.Error("SpeculativeSampling did nothing and said nothing")
	}
	state := filepath.Join(t.TempDir(), "state")
	if err := l.SaveState(state); err == nil {
		t.Error("SaveState did nothing and said nothing")
	}
	if err := os.WriteFile(state, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.LoadState(state); err == nil {
		t.Error("LoadState did nothing and said nothing")
	}
}
