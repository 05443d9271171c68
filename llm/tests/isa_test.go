//go:build native

package tests

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/internal/testmodels/generator"
	"github.com/sluice-rag/sluice/llm"
)

const childFolder = "SLUICE_TEST_CHILD_FOLDER"

// matrixTypes returns the types for which the instruction sets have their own code, with a bound for the mean
// difference of log-probabilities between a model with such weights and one with float32 weights.
func matrixTypes() map[string]float64 {
	return map[string]float64{"F32": 0, "F16": .02, "Q4_0": 1.5, "Q4_1": 1.2, "Q5_0": .9, "Q5_1": .7, "Q8_0": .2,
		"Q4_K": 1.2, "Q5_K": .7, "Q6_K": .5, "IQ4_XS": 1.5}
}

// outcome is what a child process reports: the instruction set that it used, and log-probabilities per type or model,
// prompt and token.
type outcome struct {
	ISA   string
	Types map[string][][]llm.TokenLogProb

	Attention, Products int64 // operations that Sluice's code executed
}

// TestInstructionSets runs the same models in a process for each instruction set of this machine. Up to rounding, the
// distribution of the next token must equal that of ggml's AVX2 code, which uses different kernels.
func TestInstructionSets(t *testing.T) {
	race.Skip(t)
	if dir := os.Getenv(childFolder); dir != "" {
		outcomeChild(t, dir)
		return
	}
	dir := t.TempDir()
	for typ := range matrixTypes() {
		m, _ := generator.Preset("llama-bpe")
		m.Type, m.Layers, m.Embedding, m.FF = typ, 2, 256, 512
		if err := generator.Write(filepath.Join(dir, typ+".gguf"), m); err != nil {
			t.Fatal(err)
		}
	}
	base := childOutcome(t, dir, "SLUICE_ISA=avx2")
	for typ, got := range base.Types { // checks the generator's block encodings
		if mean, _, n := difference(base.Types["F32"], got); mean > matrixTypes()[typ] || n < maxAlternatives {
			t.Errorf("%s: %d log-probabilities differ by %.2g on average from those of F32", typ, n, mean)
		}
	}
	for _, isa := range []string{"avxvnni", "avx512vnni", "amx"} {
		t.Run(isa, func(t *testing.T) {
			got := childOutcome(t, dir, "SLUICE_ISA="+isa)
			if got.ISA != isa {
				t.Skipf("SKIP: instruction set not available: %q (llama.cpp runs on %s here)", isa, got.ISA)
			}
			for typ, want := range base.Types {
				mean, worst, n := difference(want, got.Types[typ])
				t.Logf("%s: %d log-probabilities differ by %.2g on average, at most %.2g", typ, n, mean, worst)
				if n < len(want)*maxAlternatives || !(worst < .4 && mean < .06) {
					t.Errorf("%s: %d log-probabilities of about %d differ by %.2g on average, up to %.2g",
						typ, n, 2*len(want)*maxAlternatives, mean, worst)
				}
			}
		})
	}
}

// outcomeChild is the test in the child process. Prompts have 1 to about 100 tokens, read at once: products of one
// row, of a few rows, and of several tiles.
func outcomeChild(t *testing.T, dir string) {
	var prompts []string
	for words := 1; words < 24; words += 1 + words/4 {
		prompts = append(prompts, strings.Repeat("pump it up ", words/3)+"a valve b"[:1+words%9])
	}
	out := outcome{ISA: llm.ISA(), Types: map[string][][]llm.TokenLogProb{}}
	for typ := range matrixTypes() {
		out.Types[typ] = answers(t, filepath.Join(dir, typ+".gguf"),
			llm.Options{ContextSize: 256, BatchSize: 128, Threads: testThreads}, prompts)
	}
	writeOutcome(t, dir, out)
}

// answers returns the log-probabilities of the two tokens that follow each prompt.
func answers(t *testing.T, path string, o llm.Options, prompts []string) (all [][]llm.TokenLogProb) {
	t.Helper()
	o.Slots, o.Logger = 1, slog.New(slog.DiscardHandler)
	m, err := llm.Open(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, prompt := range prompts {
		all = append(all, generate(t, m, llm.Request{Prompt: prompt, MaxTokens: 2, LogProbs: true,
			Alternatives: maxAlternatives}).LogProbs)
	}
	return all
}

// TestMatmul checks that Sluice's products on AMX equal ggml's bit for bit, for numbers of rows and columns that fill
// tiles and chunks and for others.
func TestMatmul(t *testing.T) {
	race.Skip(t)
	race.Skip(t)
	if dir := os.Getenv(childFolder); dir != "" {
		matmulChild(t, dir)
		return
	}
	dir := t.TempDir()
	for _, typ := range amxTypes() {
		m, _ := generator.Preset("llama-bpe")
		if m.Type, m.Layers, m.Embedding, m.FF = typ, 2, 512, 768; !strings.Contains(typ, "K") && typ != "IQ4_XS" {
			m.FF = 544 // chunks of 128 plus one block
		}
		for i := 0; len(m.Vocab.Tokens)%32 != 0; i++ { // other matrices are not multiplied on AMX, but by products.h
			m.Vocab.Tokens = append(m.Vocab.Tokens, generator.Token{Text: fmt.Sprintf("<unused%d>", i),
				Kind: generator.User})
		}
		if err := generator.Write(filepath.Join(dir, typ+".gguf"), m); err != nil {
			t.Fatal(err)
		}
	}
	own := childOutcome(t, dir, "SLUICE_MATMUL=")
	if own.ISA != "amx" {
		t.Skipf("SKIP: instruction set not available: %q (llama.cpp runs on %s here)", "amx", own.ISA)
	}
	ggml := childOutcome(t, dir, "SLUICE_MATMUL=ggml")
	if own.Products == 0 || ggml.Products != 0 {
		t.Errorf("our products ran %d times, and %d times where ggml's were asked for", own.Products, ggml.Products)
	}
	for typ, want := range ggml.Types {
		if typ == "Q4_1" { // Sluice's own code rounds differently
			if mean, worst, n := difference(want, own.Types[typ]); n < maxAlternatives || !(worst < 1e-4) {
				t.Errorf("%s: %d log-probabilities differ by %.2g on average, up to %.2g", typ, n, mean, worst)
			}
			continue
		}
		if d := cmp.Diff(want, own.Types[typ]); d != "" || len(want) == 0 {
			t.Errorf("%s, ggml's (-) and ours (+):\n%.1500s", typ, d)
		}
	}
}

// TestProducts checks that without AMX, Sluice computes the products of weights in blocks of 32 and of the K types, for
// numbers of rows and columns that fill registers and for others, and that they differ from ggml's only by the rounding
// of float32 sums.
func TestProducts(t *testing.T) {
	if dir := os.Getenv(childFolder); dir != "" {
		matmulChild(t, dir)
		return
	}
	for _, typ := range productTypes() {
		dir := t.TempDir()
		m, _ := generator.Preset("llama-bpe")
		m.Type, m.Layers, m.Embedding, m.FF = typ, 2, 512, 768
		if !strings.Contains(typ, "K") {
			m.FF = 800 // 25 blocks: rows are unpacked 24 at a time
		}
		if len(m.Vocab.Tokens)%8 == 0 {
			t.Errorf("%d tokens fill all groups of rows", len(m.Vocab.Tokens))
		}
		if err := generator.Write(filepath.Join(dir, typ+".gguf"), m); err != nil {
			t.Fatal(err)
		}
		for _, isa := range []string{"avx2", "avxvnni", "avx512vnni"} {
			t.Run(typ+"/"+isa, func(t *testing.T) {
				own := childOutcome(t, dir, "SLUICE_ISA="+isa, "SLUICE_MATMUL=")
				if own.ISA != isa {
					t.Skipf("SKIP: instruction set not available: %q (llama.cpp runs on %s here)", isa, own.ISA)
				}
				ggml := childOutcome(t, dir, "SLUICE_ISA="+isa, "SLUICE_MATMUL=ggml")
				if own.Products == 0 || ggml.Products != 0 {
					t.Errorf("our products ran %d times, and %d times where ggml's were asked for",
						own.Products, ggml.Products)
				}
				mean, worst, n := difference(ggml.Types[typ], own.Types[typ])
				t.Logf("%d log-probabilities differ by %.2g on average, at most %.2g", n, mean, worst)
				if n < maxAlternatives || !(worst < .4 && mean < .06) {
					t.Errorf("%d log-probabilities differ by %.2g on average, up to %.2g", n, mean, worst)
				}
			})
		}
	}
}

func productTypes() []string {
	return []string{"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"}
}

func amxTypes() []string { return []string{"Q4_0", "Q4_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS"} }

// matmulChild is the test in the child process. No two prompts share a beginning, so that each is read at once.
func matmulChild(t *testing.T, dir string) {
	var prompts []string
	for i, words := range []int{1, 2, 4, 5, 8, 11, 16, 23, 40, 70, 200} {
		prompts = append(prompts, strings.Repeat(string(rune('a'+i))+" pump ", words))
	}
	out := outcome{ISA: llm.ISA(), Types: map[string][][]llm.TokenLogProb{}}
	for _, typ := range append(amxTypes(), "Q5_0", "Q5_1") {
		path := filepath.Join(dir, typ+".gguf")
		if _, err := os.Stat(path); err != nil {
			continue // TestProducts writes one
		}
		out.Types[typ] = answers(t, path,
			llm.Options{ContextSize: 1024, BatchSize: 1024, Threads: testThreads}, prompts)
	}
	writeOutcome(t, dir, out)
}

func writeOutcome(t *testing.T, dir string, out outcome) {
	t.Helper()
	out.Attention, out.Products = llm.OwnOperations()
	text, err := json.Marshal(out)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "outcome.json"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// childOutcome runs the test in a separate process with additional environment variables.
func childOutcome(t *testing.T, dir string, env ...string) (out outcome) {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+name+"$")
	child.Env = append(append(os.Environ(), childFolder+"="+dir), env...)
	if text, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%.2000s", env, err, text)
	}
	text, err := os.ReadFile(filepath.Join(dir, "outcome.json"))
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// difference compares the alternatives of tokens that follow the same text: it returns the mean and the largest
// difference of n log-probabilities. Rows are rounded to eight bits before they are multiplied by a matrix in blocks,
// so that a different order of a sum occasionally changes a value of the next layer by 1/127. Logits here have a
// standard deviation of 3, so a wrong product would be evident.
func difference(want, got [][]llm.TokenLogProb) (mean, worst float64, n int) {
	for i := range want {
		for k := range min(len(want[i]), len(got[i])) {
			if k > 0 && want[i][k-1].Token != got[i][k-1].Token {
				break
			}
			by := map[int32]float64{}
			for _, a := range got[i][k].Top {
				by[a.Token] = a.LogProb
			}
			for _, a := range want[i][k].Top {
				if p, ok := by[a.Token]; ok {
					d := math.Abs(p - a.LogProb)
					worst, mean, n = max(worst, d), mean+d, n+1
				}
			}
		}
	}
	return mean / float64(max(n, 1)), worst, n
}
