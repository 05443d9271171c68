//go:build native

package tests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluice-rag/sluice/internal/filehash"
	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/internal/testmodels/generator"
	"github.com/sluice-rag/sluice/llm"
)

func TestOpenBadFiles(t *testing.T) {
	race.Skip(t)
	real, err := os.ReadFile(testModel(t))
	if err != nil {
		t.Fatal(err)
	}
	garbage := bytes.Clone(real[:1<<20])
	for i := 24; i < len(garbage); i++ {
		garbage[i] = byte(i * 2654435761 >> 7)
	}
	tiny := filepath.Join(t.TempDir(), "tiny.gguf")
	if err := generator.Write(tiny, preset(t, "llama-bpe")); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(tiny)
	if err != nil {
		t.Fatal(err)
	}
	renamed := bytes.Replace(whole, []byte("blk.0.attn_q.weight"), []byte("blk.0.attn_x.weight"), 1)
	for name, c := range map[string]struct {
		data   []byte
		reason string
	}{
		"truncated in the tensors": {real[:len(real)/2], "truncated"},
		"truncated in the header":  {real[:200_000], "cannot be in a file of 200000 bytes"},
		"one byte short":           {real[:len(real)-1], "truncated"},
		"empty":                    {nil, "truncated"},
		"text":                     {[]byte("<html>404 not found</html>"), "not a GGUF file"},
		"garbage behind the magic": {garbage, ""},
		// Passes the header check, so that llama.cpp has to say no, and why.
		"a tensor is missing": {renamed, "llama.cpp cannot load it"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "bad.gguf")
			if err := os.WriteFile(path, c.data, 0o600); err != nil {
				t.Fatal(err)
			}
			m, err := llm.Open(context.Background(), path, llm.Options{ContextSize: 64})
			if m != nil || !errors.Is(err, llm.ErrModel) || !strings.Contains(err.Error(), path) ||
				!strings.Contains(err.Error(), c.reason) {
				t.Errorf("%v, %v", m, err)
			}
		})
	}
	if _, err := llm.Open(context.Background(), "/nowhere/m.gguf", llm.Options{}); !errors.Is(err, llm.ErrModel) ||
		!errors.Is(err, fs.ErrNotExist) {
		t.Error("missing:", err)
	}
}

func TestOpenOptions(t *testing.T) {
	race.Skip(t)
	path := testModel(t)
	for name, o := range map[string]llm.Options{
		"context": {ContextSize: 1 << 20},
		"slots":   {Slots: 100},
		"batch":   {BatchSize: 1, Slots: 2},
	} {
		if m, err := llm.Open(context.Background(), path, o); m != nil || !errors.Is(err, llm.ErrOptions) {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
	_, err := llm.Open(context.Background(), path, llm.Options{GPULayers: 10, GPULibrary: "/nowhere/libggml-cuda.so"})
	if !errors.Is(err, llm.ErrGPU) || !strings.Contains(err.Error(), "10 GPU layers") ||
		!strings.Contains(err.Error(), "/nowhere/libggml-cuda.so") {
		t.Error("layers for a GPU without its library:", err)
	}
	_, err = llm.Open(context.Background(), path, llm.Options{ChatTemplate: "no such template"})
	if !errors.Is(err, llm.ErrTemplate) {
		t.Error("template:", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := llm.Open(ctx, path, llm.Options{}); !errors.Is(err, context.Canceled) {
		t.Error("cancelled:", err)
	}
}

func TestModelInfo(t *testing.T) {
	info := sharedModel(t).Info()
	if info.SHA256 != smolSHA256 {
		t.Skipf("SKIP: %s is not the default model", info.Path)
	}
	// 134.52 M parameters is what llama-bench prints for the file.
	if info.Parameters != 134515008 || info.Bytes != 98362432 || info.ContextTrained != 8192 || info.Embedding != 576 ||
		info.Architecture != "llama" || info.Description != "llama, 134.5 M parameters, Q4_1" {
		t.Errorf("%+v", info)
	}
}

func TestApplyTemplate(t *testing.T) {
	m := sharedModel(t)
	got, err := m.ApplyTemplate([]llm.Message{system("Be brief."), user("Hi\x00 ü"), assistant("Hello."), user("Bye")})
	want := "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi\x00 ü<|im_end|>\n" +
		"<|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n"
	if err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
	long := strings.Repeat("x", 100_000)
	if got, err := m.ApplyTemplate(ask(long)); err != nil || !strings.Contains(got, long) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if _, err := m.ApplyTemplate([]llm.Message{{Role: "robot", Content: "x"}}); !errors.Is(err, llm.ErrOptions) {
		t.Error(err)
	}
	got, err = m.ApplyTemplate([]llm.Message{user("Hi"), {Role: llm.ToolRole, Content: "x"}, user("So?")})
	if err != nil || !strings.Contains(got, "<|im_start|>user\n<tool_response>\nx\n</tool_response>\nSo?<|im_end|>\n") {
		t.Errorf("%q, %v", got, err)
	}
	gemma := openModel(t, llm.Options{ContextSize: 64, Slots: 1, ChatTemplate: "gemma"})
	if got, err := gemma.ApplyTemplate(ask("Hi")); err != nil ||
		got != "<start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestTokenize(t *testing.T) {
	race.Skip(t)
	m := sharedModel(t)
	// Ids of SmolLM2's published vocabulary (49,152 tokens, byte-level BPE).
	for text, want := range map[string][]int32{
		"":                     {},
		"hello world":          {28120, 905},
		"<|im_start|>user\nHi": {1, 4093, 198, 26843},
		"<|im_end|>":           {2},
	} {
		got, err := m.Tokenize(text)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
		if n, err := m.CountTokens(text); err != nil || n != len(want) {
			t.Errorf("%q: counted %d, %v", text, n, err)
		}
	}
	// More tokens than the first guess at the buffer.
	dense := strings.Repeat("\x01\x02", 4000)
	if n, err := m.CountTokens(dense); err != nil || n < 4100 {
		t.Errorf("%d tokens of %d bytes, %v", n, len(dense), err)
	}
	a, _ := m.Tokenize("a\xffb")
	b, _ := m.Tokenize("a\uFFFDb")
	if !slices.Equal(a, b) {
		t.Errorf("invalid UTF-8: %v, replaced %v", a, b)
	}
}

func residentKB(t *testing.T) (kb int) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("SKIP: no /proc to read the memory in use from")
	}
	for line := range strings.SplitSeq(string(status), "\n") {
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kb); err == nil {
			return kb
		}
	}
	t.Skip("SKIP: /proc does not tell the memory in use")
	return 0
}

// Each request has memory of C: its own, and what upstream's Go code allocates and never frees.
func TestRequestsLeakNothing(t *testing.T) {
	race.Skip(t)
	m := openModel(t, llm.Options{ContextSize: 64, Slots: 1})
	runtime.LockOSThread() // one thread, one malloc arena
	defer runtime.UnlockOSThread()
	const calls = 100
	req := llm.Request{Prompt: "a fairly short text", Stop: []string{strings.Repeat("x", 640_000)}, MaxTokens: 1}
	round := func() int {
		for i := range calls {
			generate(t, m, req)
			if n, err := m.CountTokens(req.Prompt); err != nil || n != 4 {
				t.Fatal(i, n, err)
			}
		}
		debug.FreeOSMemory()
		return residentKB(t)
	}
	warm := round()
	if grown, leak := round()-warm, calls*len(req.Stop[0])>>10; grown > leak/8 {
		t.Errorf("%d calls left %d kB; their texts are %d kB", calls, grown, leak)
	}
}

// Two models of one file share its weights, and closing one leaves the other alone.
func TestModelsShareWeights(t *testing.T) {
	a := openModel(t, llm.Options{ContextSize: 64, Slots: 1})
	req := llm.Request{Prompt: "Once upon a time", MaxTokens: 4}
	want := generate(t, a, req).Text
	before := residentKB(t)
	b := openModel(t, llm.Options{ContextSize: 64, Slots: 1})
	if got := generate(t, b, req); got.Text != want || got.CachedTokens != 0 {
		t.Errorf("%+v, want %q and a cache of its own", got, want)
	}
	if grown := residentKB(t) - before; grown > 60<<10 {
		t.Errorf("a second model took %d kB; the weights alone are 94,000", grown)
	}
	a.Close()
	if got := generate(t, b, req); got.Text != want {
		t.Errorf("%q after the other was closed, want %q", got.Text, want)
	}
}

func TestAcquire(t *testing.T) {
	var taken, given atomic.Int64
	m := openModel(t, llm.Options{ContextSize: 64, Slots: 1, Threads: 2, Acquire: func() (int, func()) {
		taken.Add(1)
		return 1 + int(taken.Load()%3), func() { given.Add(1) } // 3 is more than the model may use
	}})
	generate(t, m, llm.Request{Prompt: "Once upon a time", MaxTokens: 4})
	if n := m.Stats().Decodes; n < 4 || taken.Load() != n || given.Load() != n {
		t.Errorf("%d decodes, %d acquired, %d released", n, taken.Load(), given.Load())
	}
}

func TestLogRouted(t *testing.T) {
	var out bytes.Buffer
	m := openModel(t, llm.Options{ContextSize: 64, Slots: 1,
		Logger: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if !strings.Contains(out.String(), "source=llama.cpp") || !strings.Contains(out.String(), "n_ctx ") {
		t.Errorf("llama.cpp's log did not arrive: %.300s", out.String())
	}
	m.Close()
}

func TestNativeDigest(t *testing.T) {
	lib := filepath.Join("..", "..", "third_party", "llama", "lib", "libbinding.a")
	if _, err := os.Stat(lib); err != nil {
		t.Skip("SKIP: no libbinding.a from the set-up")
	}
	sum, err := filehash.Sum(t.Context(), lib)
	if err != nil || !strings.Contains(llm.NativeDigest(), sum) {
		t.Errorf("the stamp %q is not of %s (%s), %v", llm.NativeDigest(), lib, sum, err)
	}
}

// TestTextOf: the text of tokens has the same tokens again, in the vocabularies of all families, and tokens that no
// text has are an error.
func TestTextOf(t *testing.T) {
	texts := []string{"hello world", "  two spaces", " one", "Größe 日本語 😀\n\n\tx", "a<|im_end|>b", "<s>",
		"1234 + 5 = €"}
	back := func(t *testing.T, m *llm.Model) {
		front, err := m.Tokenize("")
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range texts {
			ids, err := m.Tokenize(text)
			if err != nil {
				t.Fatal(err)
			}
			for _, given := range [][]int32{ids, ids[len(front):]} {
				got, err := m.TextOf(given)
				if err != nil {
					t.Errorf("%q, %v: %v", text, given, err)
					continue
				}
				if again, err := m.Tokenize(got); err != nil || !slices.Equal(again, ids) {
					t.Errorf("%q: the text of %v is %q, which has %v, %v", text, given, got, again, err)
				}
			}
		}
		for _, given := range [][]int32{{-1}, {1 << 30}} {
			if text, err := m.TextOf(given); !errors.Is(err, llm.ErrTokens) {
				t.Errorf("%v: %q, %v", given, text, err)
			}
		}
	}
	eachPreset(t, func(t *testing.T, p generator.Model) { back(t, openPreset(t, p, 1)) })
	m := sharedModel(t)
	back(t, m)
	one, _ := m.Tokenize("hel")
	two, _ := m.Tokenize("lo world")
	if text, err := m.TextOf(slices.Concat(one, two)); !errors.Is(err, llm.ErrTokens) {
		t.Errorf("%v, %v: %q, %v", one, two, text, err)
	}
}

// What no user can do anything about is no warning: every file of Qwen2.5 has a token that only looks like a control
// token, and all models with sliding windows are opened with a cache of full size.
func TestOrdinaryFilesGiveNoWarning(t *testing.T) {
	odd := preset(t, "llama-bpe")
	odd.Vocab.Tokens = append(slices.Clone(odd.Vocab.Tokens), generator.Token{Text: "</s>", Kind: generator.Normal})
	for says, p := range map[string]generator.Model{"control-looking token": odd,
		"using full-size SWA cache": preset(t, "gemma2")} {
		path := filepath.Join(t.TempDir(), "m.gguf")
		if err := generator.Write(path, p); err != nil {
			t.Fatal(err)
		}
		var all, warnings strings.Builder
		for to, level := range map[*strings.Builder]slog.Level{&all: slog.LevelDebug, &warnings: slog.LevelWarn} {
			m, err := llm.Open(t.Context(), path, llm.Options{ContextSize: 512, Slots: 1, Threads: testThreads,
				Logger: slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{Level: level}))})
			if err != nil {
				t.Fatal(err)
			}
			m.Close()
		}
		if !strings.Contains(all.String(), says) || warnings.Len() > 0 {
			t.Errorf("%s: warnings: %q; all:\n%.2000s", says, warnings.String(), all.String())
		}
	}
}
