//go:build native

package llm

import (
	"bytes"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	llama "github.com/go-skynet/go-llama.cpp"

	"github.com/sluice-rag/sluice/internal/models"
)

// testModel returns the path of the default generator, or of $SLUICE_TEST_GGUF; it skips the test when there is none.
func testModel(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("SLUICE_TEST_GGUF"); path != "" {
		return path
	}
	path, err := models.LocateGGUF("SmolLM2-135M-Instruct")
	if err != nil {
		t.Skipf("SKIP: no SLUICE_TEST_GGUF, and the default language model is not there: %v", err)
	}
	return path
}

// Upstream's own Go API, over our library: what Generate does not use of it has to work all the same, or say no.

func upstream(t *testing.T) *handle {
	m, err := Open(t.Context(), testModel(t), Options{ContextSize: 256, Slots: 1, Threads: 1,
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	h, err := m.slots.take(t.Context(), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.slots.give(h) })
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
	got := predict(t, h, "A colour and a number:", llama.WithGrammar(grammar))
	if !regexp.MustCompile(`^\{"colour": "(red|green|blue)", "n": \d+`).MatchString(got) {
		t.Errorf("%q", got)
	}
	_, err := h.llama.Predict("x", llama.WithGrammar("root ::= ("))
	refused(t, h, err, "grammar")
}

// Selecting the best candidates before llama.cpp's samplers see them changes nothing. A bias of 0 switches it off.
func TestUpstreamSelectionIsExact(t *testing.T) {
	h := upstream(t)
	for name, opts := range map[string][]llama.PredictOption{
		"top-k": {llama.SetTemperature(1), llama.SetTopK(40), llama.SetTopP(.95)},
		"penalties": {llama.SetTemperature(1.3), llama.SetTopK(20), llama.SetPenalty(1.3),
			llama.SetFrequencyPenalty(.2), llama.SetPresencePenalty(.1)},
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
	got := predict(t, h, "The capital of France is", llama.SetLogitBias(tokenID(t, h, " Paris")+"-100"))
	if !strings.HasPrefix(plain, " Paris") || strings.HasPrefix(got, " Paris") {
		t.Errorf("logit bias: %q became %q", plain, got)
	}
	for reason, opt := range map[string]llama.PredictOption{
		"logit bias is not": llama.SetLogitBias("nonsense"),
		"beyond the vocab":  llama.SetLogitBias("9999999+1"),
		"top_p":             llama.SetTopP(7),
		"mirostat":          llama.SetMirostat(9),
		"tail-free":         llama.SetTailFreeSamplingZ(.5),
		"negative prompt":   llama.SetNegativePromptScale(2),
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

// embedder is a model of upstream's API that embeds.
func embedder(t *testing.T) *llama.LLama {
	t.Helper()
	l, err := llama.New(testModel(t), llama.EnableEmbeddings, llama.SetContext(128), llama.SetNBatch(16))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Free)
	return l
}

func cosine(a, b []float32) float64 {
	var ab, aa, bb float64
	for i := range a {
		ab, aa, bb = ab+float64(a[i])*float64(b[i]), aa+float64(a[i])*float64(a[i]), bb+float64(b[i])*float64(b[i])
	}
	return ab / math.Sqrt(aa*bb)
}

func TestUpstreamEmbeddings(t *testing.T) {
	l := embedder(t)
	const width = 576 // SmolLM2-135M's
	embed := func(text string) []float32 {
		e, err := l.Embeddings(text, llama.SetTokens(width))
		if err != nil || len(e) != width {
			t.Fatal(len(e), err)
		}
		return e
	}
	a, b, c := embed("The cat sat on the mat."), embed("The cat lay on the mat."), embed("Interest rates rose again.")
	if again := embed("The cat sat on the mat."); !slices.Equal(a, again) {
		t.Error("the same text has two embeddings")
	}
	if near, far := cosine(a, b), cosine(a, c); near <= far {
		t.Errorf("cosine %.3f between similar sentences, %.3f between others", near, far)
	}
	long := strings.Repeat("word ", 40) // more than a batch
	_, ids, err := l.TokenizeString(long)
	if err != nil {
		t.Fatal(err)
	}
	tokens := make([]int, len(ids))
	for i, id := range ids {
		tokens[i] = int(id)
	}
	byToken, err := l.TokenEmbeddings(tokens, llama.SetTokens(width))
	if err != nil || !slices.Equal(byToken, embed(long)) {
		t.Errorf("a text and its tokens have different embeddings, %v", err)
	}
	for name, call := range map[string]func() error{
		"too little room": func() error { _, err := l.Embeddings("x", llama.SetTokens(width-1)); return err },
		"too long": func() error {
			_, err := l.Embeddings(strings.Repeat("word ", 200), llama.SetTokens(width))
			return err
		},
		"empty": func() error {
			_, err := l.TokenEmbeddings([]int{}, llama.SetTokens(width))
			return err
		},
		"beyond the vocabulary": func() error {
			_, err := l.TokenEmbeddings([]int{1 << 30}, llama.SetTokens(width))
			return err
		},
		"negative": func() error {
			_, err := l.TokenEmbeddings([]int{-1}, llama.SetTokens(width))
			return err
		},
	} {
		if err := call(); err == nil {
			t.Error(name, "is not refused")
		}
	}
}

const story = "Once upon a time there was a little dog who lived in a house by the sea with an old fisherman and"

// TestUpstreamState: a state goes to a file and comes back to another model of the same weights.
func TestUpstreamState(t *testing.T) {
	h := upstream(t)
	path := filepath.Join(t.TempDir(), "state")
	if err := h.llama.SaveState(path); err == nil {
		t.Error("there was nothing to save")
	}
	want := predict(t, h, story)
	if err := h.llama.SaveState(path); err != nil {
		_, why := h.last()
		t.Fatal(err, why)
	}
	other := upstream(t)
	if err := other.llama.LoadState(path); err != nil {
		_, why := other.last()
		t.Fatal(err, why)
	}
	got := predict(t, other, story)
	if res, _ := other.last(); res.CachedTokens < res.PromptTokens-1 || got != want {
		t.Errorf("%q after a loaded state, %q without; %d of %d prompt tokens cached",
			got, want, res.CachedTokens, res.PromptTokens)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	damage := func(at int) []byte {
		b := bytes.Clone(whole)
		b[at] ^= 1
		return b
	}
	for name, content := range map[string][]byte{
		"empty": nil, "cut": whole[:len(whole)/2], "short": whole[:20], "longer": append(bytes.Clone(whole), 0),
		"of another model": damage(8), "of more tokens": damage(16), "of other bytes": damage(24),
		"with another token": damage(40),
		"damaged":            damage(len(whole) - 100), "of another format": damage(0),
	} {
		bad := filepath.Join(t.TempDir(), "bad")
		if err := os.WriteFile(bad, content, 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, other, other.llama.LoadState(bad), "state")
		if name == "" {
			t.Fatal()
		}
	}
	refused(t, other, other.llama.LoadState(filepath.Join(t.TempDir(), "none")), "No such file")
	if err := h.llama.SaveState(filepath.Join(t.TempDir(), "no", "folder")); err == nil {
		t.Error("a state was saved to a folder that is not there")
	}
}

// TestUpstreamPromptCache: the file spares the next process the prompt.
func TestUpstreamPromptCache(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	h := upstream(t)
	want := predict(t, h, story, llama.SetPathPromptCache(path))
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	other := upstream(t)
	got := predict(t, other, story, llama.SetPathPromptCache(path), llama.EnablePromptCacheRO)
	if res, _ := other.last(); res.CachedTokens < res.PromptTokens-1 || got != want {
		t.Errorf("%q from the file, %q without; %d of %d prompt tokens cached",
			got, want, res.CachedTokens, res.PromptTokens)
	}
	predict(t, other, story+" his cat", llama.SetPathPromptCache(path), llama.EnablePromptCacheRO)
	if again, err := os.Stat(path); err != nil || !again.ModTime().Equal(st.ModTime()) || again.Size() != st.Size() {
		t.Errorf("a cache for reading only was written: %v", err)
	}
	predict(t, other, story, llama.SetPathPromptCache(path), llama.EnablePromptCacheAll)
	if all, err := os.Stat(path); err != nil || all.Size() <= st.Size() {
		t.Errorf("with the completion the cache is no larger: %v", err)
	}
	if err := os.WriteFile(path, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = other.llama.Predict(story, llama.SetPathPromptCache(path))
	refused(t, other, err, "not a saved state")
}

func TestUpstreamLoadOptions(t *testing.T) {
	l, err := llama.New(testModel(t), llama.SetContext(64), llama.SetNBatch(32), llama.SetMMap(false),
		llama.EnableF16Memory, llama.SetModelSeed(7), llama.SetMulMatQ(false), llama.WithRopeFreqBase(10000),
		llama.WithRopeFreqScale(.5), llama.SetMainGPU("0"),
		llama.SetTensorSplit("1"), llama.EnableNUMA, llama.EnabelLowVRAM, llama.SetPerplexity(true))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Free()
	if text, err := l.Predict("Once upon a time", llama.SetTokens(8)); err != nil || text == "" {
		t.Errorf("%q, %v", text, err)
	}
	for name, opt := range map[string]llama.ModelOption{
		"LoRA": llama.SetLoraAdapter("none.gguf"), "main GPU": llama.SetMainGPU("first"),
		"tensor split": llama.SetTensorSplit("a,b"),
	} {
		if l, err := llama.New(testModel(t), llama.SetContext(64), opt); err == nil {
			l.Free()
			t.Error(name, "is not refused")
		}
	}
}

func TestUpstreamSpeculative(t *testing.T) {
	h := upstream(t)
	_, err := h.llama.SpeculativeSampling(h.llama, "x", llama.SetTokens(8))
	refused(t, h, err, "SpeculativeSampling is not supported")
}
