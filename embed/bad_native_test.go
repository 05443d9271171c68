//go:build native

package embed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/embed/onnx"
	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/internal/testmodels/checkpoint"
)

func TestOpenRefuses(t *testing.T) {
	needLibrary(t)
	put := func(name, text string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	change := func(name, from, to string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			raw, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || !strings.Contains(string(raw), from) {
				t.Fatalf("%s lacks %q (%v)", name, from, err)
			}
			put(name, strings.Replace(string(raw), from, to, 1))(t, dir)
		}
	}
	half := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, name)
			st, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(path, st.Size()/2); err != nil {
				t.Fatal(err)
			}
		}
	}
	gone := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		do   func(*testing.T, string)
		want string
	}{
		"no config":            {gone("config.json"), "config.json"},
		"half a config":        {half("config.json"), "config.json"},
		"no weights":           {gone("model.safetensors"), "model.safetensors"},
		"half the weights":     {half("model.safetensors"), "model.safetensors"},
		"garbage weights":      {put("model.safetensors", strings.Repeat("garbage ", 100)), "model.safetensors"},
		"no tokenizer":         {gone("tokenizer.json"), "tokenizer.json"},
		"half a tokenizer":     {half("tokenizer.json"), "tokenizer.json"},
		"empty tokenizer":      {put("tokenizer.json", ""), "tokenizer.json"},
		"tokenizer of nothing": {put("tokenizer.json", `{"model":{}}`), "tokenizer.json"},
		"tokenizer is a list":  {put("tokenizer.json", `[]`), "tokenizer.json"},
		"tokenizer with NUL":   {change("tokenizer.json", `"WordPiece"`, `"Word\u0000Piece"`), "tokenizer.json"},
		"unknown model kind":   {change("tokenizer.json", `"WordPiece"`, `"Word"`), "tokenizer.json"},
		"no unknown token":     {change("tokenizer.json", `"unk_token":"[UNK]"`, `"unk_token":"[NONE]"`), ""},
		"template without ids": {change("tokenizer.json", `"special_tokens":`, `"special":`), "tokenizer.json"},
		"wrong width":          {change("config.json", `"hidden_size":32`, `"hidden_size":64`), "model.safetensors"},
		"max_tokens too large": {change("model.yaml", "max_tokens: 0", "max_tokens: 81"), "81"},
		"max_tokens too small": {change("model.yaml", "max_tokens: 0", "max_tokens: 2"), "max_tokens"},
		"unknown key":          {change("model.yaml", "kind:", "sort:"), "model.yaml"},
		"a generator":          {change("model.yaml", "kind: encoder", "kind: classifier"), "model.yaml"},
		"model.onnx is garbage": {func(t *testing.T, dir string) {
			gone("model.safetensors")(t, dir)
			put("model.onnx", "garbage")(t, dir)
		}, "model.onnx"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := checkpoint.Write(dir, checkpoint.Spec{Family: "bert"}); err != nil {
				t.Fatal(err)
			}
			c.do(t, dir)
			e, err := Open(context.Background(), dir, Options{})
			if err == nil {
				defer e.Close()
			}
			if err == nil && c.want == "" { // the library only notices at a word it does not know
				_, err = e.Embed(context.Background(), []string{"☃"}, Document)
			}
			if !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; ErrModel naming %q expected", err, c.want)
			}
			if errors.Is(err, ErrLibrary) {
				t.Errorf("%v: blames the library", err)
			}
		})
	}
	for _, dir := range []string{filepath.Join(t.TempDir(), "none"), filepath.Join("testdata", "reference.py")} {
		if _, err := Open(context.Background(), dir, Options{}); !errors.Is(err, ErrModel) ||
			!strings.Contains(err.Error(), filepath.Base(dir)) {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if ortRuntime.users != 0 {
		t.Errorf("refused models keep ONNX Runtime: %d users", ortRuntime.users)
	}
}

func TestVocabularyBeyondTheTable(t *testing.T) {
	needLibrary(t)
	dir := t.TempDir()
	if err := checkpoint.Write(dir, checkpoint.Spec{Family: "bert"}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "tokenizer.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(raw), `"gate":`, `"gate":1`, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	budget := cores.New(3)
	e := openEncoder(t, dir, Options{Cores: budget})
	if _, err := e.Embed(context.Background(), []string{"open", "gate"}, Document); !errors.Is(err, ErrModel) ||
		!strings.Contains(err.Error(), "vocab_size") {
		t.Errorf("%v", err)
	}
	embedAll(t, e, []string{"open"}, Document) // still usable
	for i := 0; budget.Free() < budget.Size(); i++ {
		if time.Sleep(time.Millisecond); i == 2000 {
			t.Fatalf("%d of %d cores come back", budget.Free(), budget.Size())
		}
	}
}

// export writes the graph of the checkpoint in dir as a ready export, its weights beside it, under a family we do not
// know.
func export(t *testing.T, from string, task onnx.Task, place string) string {
	t.Helper()
	g, err := onnx.Write(from, onnx.Options{Task: task, Pooling: onnx.Mean, Standard: true})
	if err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if err := os.MkdirAll(filepath.Join(to, place), 0o755); err != nil {
		t.Fatal(err)
	}
	copies := map[string]string{"tokenizer.json": "tokenizer.json", "model.yaml": "model.yaml",
		"model.safetensors": filepath.Join(place, "model.safetensors")}
	for name, as := range copies {
		raw, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, as), raw, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	config, err := json.Marshal(map[string]any{"model_type": "nomic_bert", "max_position_embeddings": 80,
		"pad_token_id": 0})
	if err != nil {
		t.Fatal(err)
	}
	for name, raw := range map[string][]byte{"config.json": config, filepath.Join(place, "model.onnx"): g.ONNX} {
		if err := os.WriteFile(filepath.Join(to, name), raw, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

func TestReadyExports(t *testing.T) {
	needLibrary(t)
	for _, pooling := range []string{"mean", "cls"} {
		for _, norm := range []bool{true, false} {
			dir := t.TempDir()
			if err := checkpoint.Write(dir,
				checkpoint.Spec{Family: "bert", Pooling: pooling, Normalise: norm}); err != nil {
				t.Fatal(err)
			}
			own := openEncoder(t, dir, Options{})
			want := embedAll(t, own, smallTexts(), Document)
			exports := map[string]onnx.Task{"onnx": onnx.Hidden}
			if pooling == "mean" {
				exports["."] = onnx.Embed
			}
			for place, task := range exports {
				e := openEncoder(t, export(t, dir, task, place), Options{MaxBatchTokens: 100})
				got := embedAll(t, e, smallTexts(), Document)
				if d := worst32(got.Data, want.Data); d > 2e-6 || !slices.Equal(got.Tokens, want.Tokens) {
					t.Errorf("%s, norm %t, export in %s: max |d| = %g, tokens %v, expected %v", pooling, norm, place, d,
						got.Tokens, want.Tokens)
				}
				if e.Info().Digest == own.Info().Digest || e.Info().Architecture != "nomic_bert" {
					t.Errorf("%+v", e.Info())
				}
			}
		}
	}
}

func TestExportDigestCoversExternalData(t *testing.T) {
	needLibrary(t)
	from := t.TempDir()
	if err := checkpoint.Write(from, checkpoint.Spec{Family: "bert"}); err != nil {
		t.Fatal(err)
	}
	dir := export(t, from, onnx.Hidden, "onnx")
	before := openEncoder(t, dir, Options{}).Info().Digest
	path := filepath.Join(dir, "onnx", "model.safetensors")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)-1] ^= 1
	if err := os.WriteFile(path, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	if openEncoder(t, dir, Options{}).Info().Digest == before {
		t.Error("other weights, the same digest")
	}
}

func TestDigestFollowsSettings(t *testing.T) {
	needLibrary(t)
	seen := map[string]string{}
	for _, s := range []checkpoint.Spec{
		{Family: "bert"}, {Family: "bert", Pooling: "cls"}, {Family: "bert", Normalise: true},
		{Family: "bert", MaxTokens: 20},
		{Family: "bert", Act: "relu"}, {Family: "bert", DType: "F16"}, {Family: "roberta"},
	} {
		dir := t.TempDir()
		if err := checkpoint.Write(dir, s); err != nil {
			t.Fatal(err)
		}
		d := openEncoder(t, dir, Options{}).Info().Digest
		if other, twice := seen[d]; twice {
			t.Errorf("%+v has the digest of %s", s, other)
		}
		seen[d] = fmt.Sprintf("%+v", s)
	}
}

func TestBudgetIsRespected(t *testing.T) {
	needLibrary(t)
	dir := t.TempDir()
	if err := checkpoint.Write(dir, checkpoint.Spec{Family: "bert"}); err != nil {
		t.Fatal(err)
	}
	budget := cores.New(1)
	e := openEncoder(t, dir, Options{Cores: budget, Workers: 3})
	_, release, err := budget.Acquire(context.Background(), 1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { _, err := e.Embed(ctx, smallTexts(), Document); done <- err }()
	cancel() // it can only be waiting for the token
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v; it ran without a token", err)
	}
	release()
	embedAll(t, e, smallTexts(), Document)
	// a worker gives its token back when its callers have what they asked for
	for end := time.Now().Add(10 * time.Second); budget.Free() != 1 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if budget.Free() != 1 {
		t.Errorf("%d tokens free after the call", budget.Free())
	}
}

// Weights that are not numbers give no vectors, for any kind of model.
func TestWeightsThatAreNotNumbers(t *testing.T) {
	needLibrary(t)
	for _, labels := range [][]string{nil, {"a", "b"}} {
		dir := t.TempDir()
		if err := checkpoint.Write(dir, checkpoint.Spec{Family: "bert", Normalise: true, Labels: labels}); err != nil {
			t.Fatal(err)
		}
		if err := checkpoint.SpoilWeights(dir); err != nil {
			t.Fatal(err)
		}
		var err error
		if labels == nil {
			_, err = openEncoder(t, dir, Options{}).Embed(t.Context(), []string{"the gate"}, Query)
		} else {
			var c *Classifier
			if c, err = OpenClassifier(t.Context(), dir, Options{}); err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_, err = c.Classify(t.Context(), []string{"the gate"})
		}
		if !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), "model.safetensors") {
			t.Errorf("%v: %v", labels, err)
		}
	}
}
