//go:build native

package tests

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/internal/testmodels/generator"
	"github.com/sluice-rag/sluice/llm"
)

// attentionModels have the shapes that our attention takes: heads that share keys and heads that do not, narrow and
// wide ones, sliding windows, capped scores.
func attentionModels() []string {
	return []string{"llama-spm", "phi3", "gemma2", "gemma3", "mixtral", "lfm2"}
}

// TestAttention runs models once with our attention and once with ggml's, which is other code. Prompts read alone and
// at once go through ggml's tiles, which sum in float32 as we do. Several prompts that are read together, whose
// beginnings are shared, and single tokens go cell by cell there, with queries and sums rounded to float16: the bound
// is what that costs.
func TestAttention(t *testing.T) {
	race.Skip(t)
	if dir := os.Getenv(childFolder); dir != "" {
		attentionChild(t, dir)
		return
	}
	dir := t.TempDir()
	for _, name := range attentionModels() {
		m, _ := generator.Preset(name)
		if err := generator.Write(filepath.Join(dir, name+".gguf"), m); err != nil {
			t.Fatal(err)
		}
	}
	for _, isa := range []string{"avx2", "amx"} {
		t.Run(isa, func(t *testing.T) {
			own := childOutcome(t, dir, "SLUICE_ISA="+isa, "SLUICE_ATTENTION=")
			if own.ISA != isa {
				t.Skipf("SKIP: instruction set not available: %q (llama.cpp runs on %s here)", isa, own.ISA)
			}
			ggml := childOutcome(t, dir, "SLUICE_ISA="+isa, "SLUICE_ATTENTION=ggml")
			if own.Attention == 0 || ggml.Attention != 0 {
				t.Errorf("our attention ran %d times, and %d times where ggml's was asked for",
					own.Attention, ggml.Attention)
			}
			for name, want := range ggml.Types {
				bound := .15
				switch {
				case strings.HasSuffix(name, " alone"):
					bound = 1e-2
				case name == "mixtral":
					bound = 2 // that a router chooses another expert now and then
				}
				mean, worst, n := difference(want, own.Types[name])
				t.Logf("%s: %d log-probabilities differ by %.2g on average, at most %.2g", name, n, mean, worst)
				if n < len(want)*maxAlternatives/2 || worst == 0 || worst > bound || mean > .05 {
					t.Errorf("%s: %d log-probabilities differ by %.2g on average, up to %.2g; 0 means that both are the same code", name, n, mean, worst)
				}
			}
		})
	}
}

// attentionChild is the child.
func attentionChild(t *testing.T, dir string) {
	out := outcome{ISA: llm.ISA(), Types: map[string][][]llm.TokenLogProb{}}
	if out.ISA != os.Getenv("SLUICE_ISA") {
		writeOutcome(t, dir, out) // this machine lacks it
		return
	}
	threads := 2 // share our attention's work, and a row alone between them
	if os.Getenv("SLUICE_ATTENTION") == "ggml" {
		threads = testThreads
	}
	for _, name := range attentionModels() {
		m, err := llm.Open(t.Context(), filepath.Join(dir, name+".gguf"),
			llm.Options{ContextSize: 1024, CacheTokens: 8192, Slots: 8, BatchSize: 1024, Threads: threads,
				Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		prefix := strings.Repeat("the pump opens the valve in winter ", 6)
		var prompts []string
		for i := range 8 {
			prompts = append(prompts, prefix+strings.Repeat(fmt.Sprintf("note %d says so ", i), 1+5*i))
		}
		ask := func(prompt string, tokens int) []llm.TokenLogProb {
			res, err := m.Generate(t.Context(), llm.Request{Prompt: prompt, MaxTokens: tokens, LogProbs: true,
				Alternatives: maxAlternatives}, nil)
			if err != nil {
				t.Error(err)
			}
			return res.LogProbs
		}
		together, alone := make([][]llm.TokenLogProb, len(prompts)), make([][]llm.TokenLogProb, len(prompts))
		var all sync.WaitGroup
		for i, p := range prompts {
			all.Go(func() { together[i] = ask(p, 3) })
		}
		all.Wait()
		for i, p := range prompts {
			alone[i] = ask(string(rune('a'+i))+p, 1) // nothing of it was read before
		}
		out.Types[name], out.Types[name+" alone"] = together, alone
		m.Close()
	}
	writeOutcome(t, dir, out)
}

// TestThreadsOfOtherAttention: where ggml computes attention, as it does for scores and sinks that ours lacks, the bits
// of a text do not depend on the number of threads either, which changes with the load.
func TestThreadsOfOtherAttention(t *testing.T) {
	race.Skip(t)
	if dir := os.Getenv(childFolder); dir != "" {
		out := outcome{Types: map[string][][]llm.TokenLogProb{}}
		for threads := 1; threads <= 3; threads++ {
			m, err := llm.Open(t.Context(), filepath.Join(dir, "m.gguf"), llm.Options{ContextSize: 1024, Slots: 1,
				Threads: threads, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			r := generate(t, m, llm.Request{Prompt: strings.Repeat("the pump opens the valve in winter ", 40),
				MaxTokens: 16, LogProbs: true, Alternatives: 5})
			out.Types[fmt.Sprint(threads)] = [][]llm.TokenLogProb{r.LogProbs}
			m.Close()
		}
		writeOutcome(t, dir, out)
		return
	}
	dir := t.TempDir()
	p, _ := generator.Preset("llama-bpe")
	if err := generator.Write(filepath.Join(dir, "m.gguf"), p); err != nil {
		t.Fatal(err)
	}
	out := childOutcome(t, dir, "SLUICE_ATTENTION=ggml")
	if out.Attention != 0 || len(out.Types["1"]) == 0 || len(out.Types["1"][0]) < 2 {
		t.Fatalf("our attention ran %d times; %d log-probabilities", out.Attention, len(out.Types["1"]))
	}
	for _, threads := range []string{"2", "3"} {
		if d := cmp.Diff(out.Types["1"], out.Types[threads]); d != "" {
			t.Errorf("one thread (-) and %s (+):\n%.1500s", threads, d)
		}
	}
}

// TestSlidingWindowKeepsWhatIsReused: llama.cpp would write over cells that a sliding window has left behind, of texts
// that are remembered too, and a prompt that begins like one of these would then be read with holes.
func TestSlidingWindowKeepsWhatIsReused(t *testing.T) {
	race.Skip(t)
	for _, name := range []string{"gemma2", "gemma3"} {
		p, _ := generator.Preset(name)
		path := filepath.Join(t.TempDir(), name+".gguf")
		if err := generator.Write(path, p); err != nil {
			t.Fatal(err)
		}
		ask := func(m *llm.Model, prompt string) llm.Result {
			return generate(t, m, llm.Request{Prompt: prompt, MaxTokens: 1, LogProbs: true,
				Alternatives: maxAlternatives})
		}
		open := func() *llm.Model {
			m, err := llm.Open(t.Context(), path, llm.Options{ContextSize: 1024, CacheTokens: 2048, Slots: 2,
				Threads: testThreads, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		m, fresh := open(), open()
		remembered := strings.Repeat("the pump opens a valve ", 10)
		again := remembered[:len(remembered)/2] + "and closes it in winter"
		ask(m, strings.Repeat("one ", 100))
		ask(m, remembered)
		ask(m, strings.Repeat("other ", 350)) // longer than the first one, whose place it takes
		got, want := ask(m, again), ask(fresh, again)
		if got.CachedTokens < 30 || want.CachedTokens > 0 {
			t.Fatalf("%s: %d and %d tokens reused", name, got.CachedTokens, want.CachedTokens)
		}
		mean, worst, n := difference([][]llm.TokenLogProb{want.LogProbs}, [][]llm.TokenLogProb{got.LogProbs})
		if n < maxAlternatives-1 || worst > .02 {
			t.Errorf("%s: %d log-probabilities after %d reused tokens differ by %.2g on average, up to %.2g",
				name, n, got.CachedTokens, mean, worst)
		}
		m.Close()
		fresh.Close()
	}
}

// invariant returns the types whose products have the same bits for a row alone and in a batch.
func invariant() []string {
	types := []string{"Q4_0", "Q4_1", "Q8_0"}
	switch llm.ISA() {
	case "avx2", "avxvnni", "avx512vnni":
		types = append(types, "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K")
	case "amx":
		types = append(types, "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS", "F16")
	}
	return types
}

// TestBatchInvariance: what else is in a batch, where the cells lie, how a prompt was cut and how many threads there
// are changes no bit of a completion's log-probabilities.
func TestBatchInvariance(t *testing.T) {
	race.Skip(t)
	for _, typ := range invariant() {
		p, _ := generator.Preset("llama-bpe")
		p.Type, p.Layers, p.Embedding, p.FF = typ, 2, 256, 512
		path := filepath.Join(t.TempDir(), "m.gguf")
		if err := generator.Write(path, p); err != nil {
			t.Fatal(err)
		}
		requests := 6
		if typ == "Q4_1" || typ == "Q6_K" { // more vectors than registers hold, and last rows that do not fill one
			if requests = 20; len(p.Vocab.Tokens)%16 == 0 {
				t.Errorf("%d tokens fill all groups of rows", len(p.Vocab.Tokens))
			}
		}
		t.Run(typ, func(t *testing.T) { checkInvariance(t, path, requests) })
	}
	t.Run("SmolLM2", func(t *testing.T) { checkInvariance(t, testModel(t), 6) })
}

// TestBatchInvarianceOfUsedCache: requests come and go in a cache that is too small to remember them all, so that later
// tokens of a text get the cells that others have left.
func TestBatchInvarianceOfUsedCache(t *testing.T) {
	race.Skip(t)
	for _, name := range []string{"llama-bpe", "gemma2"} {
		p, _ := generator.Preset(name)
		path := filepath.Join(t.TempDir(), name+".gguf")
		if p.Type, p.Embedding, p.FF = "Q8_0", 256, 512; llm.ISA() == "amx" {
			p.Type = "Q6_K" // whose float32 scales show a single bit
		}
		if err := generator.Write(path, p); err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			open := func(o llm.Options) *llm.Model {
				o.ContextSize, o.Logger = 256, slog.New(slog.DiscardHandler)
				m, err := llm.Open(t.Context(), path, o)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { m.Close() })
				return m
			}
			request := func(i int) llm.Request {
				return llm.Request{Prompt: strings.Repeat("the pump opens ", i*7%11) +
					strings.Repeat(fmt.Sprintf("note %d ", i), 2+i*5%13), MaxTokens: 4 + i*11%29, LogProbs: true,
					Alternatives: 5}
			}
			m, serial := open(llm.Options{CacheTokens: 320, Slots: 3, Threads: 2}),
				open(llm.Options{Slots: 1, Threads: testThreads})
			results := make([]llm.Result, 36)
			var all sync.WaitGroup
			for worker := range 3 {
				all.Go(func() {
					for i := worker; i < len(results); i += 3 {
						results[i] = generate(t, m, request(i))
					}
				})
			}
			all.Wait()
			differ := 0
			for i, got := range results {
				if d := cmp.Diff(generate(t, serial, request(i)).LogProbs, got.LogProbs); d != "" ||
					len(got.LogProbs) == 0 {
					if differ++; differ == 1 {
						t.Errorf("request %d, alone (-) and beside others (+):\n%.1500s", i, d)
					}
				}
			}
			if differ > 0 {
				t.Errorf("%d of %d requests have other bits beside others", differ, len(results))
			}
			if s := m.Stats(); s.Evicted == 0 {
				t.Errorf("nothing was evicted: %+v", s)
			}
		})
	}
}

func checkInvariance(t *testing.T, path string, requests int) {
	request := func(i int) llm.Request {
		return llm.Request{Prompt: strings.Repeat("the pump opens ", 40) +
			strings.Repeat(fmt.Sprintf("note %d ", i), 2+3*(i%6)), MaxTokens: 4*requests + i, LogProbs: true,
			Alternatives: 5}
	}
	open := func(o llm.Options) *llm.Model {
		o.ContextSize, o.Logger = 512, slog.New(slog.DiscardHandler)
		m, err := llm.Open(t.Context(), path, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		return m
	}
	m := open(llm.Options{CacheTokens: 1024 * requests, Slots: requests, Threads: 2})
	results := make([]llm.Result, requests)
	var all sync.WaitGroup
	for i := range results {
		all.Go(func() { results[i] = generate(t, m, request(i)) })
	}
	all.Wait()
	serial := open(llm.Options{Slots: 1, Threads: 1, BatchSize: 33})
	for i, got := range results {
		alone := generate(t, serial, request(i))
		if d := cmp.Diff(alone.LogProbs, got.LogProbs); d != "" || len(got.LogProbs) == 0 {
			t.Errorf("request %d, alone (-) and beside others (+):\n%.1500s", i, d)
		}
	}
}
