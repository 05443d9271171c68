//go:build native

package gguf_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/embed/gguf"
	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/internal/testmodels/generator"
	"github.com/sluice-rag/sluice/llm"
)

var figures = flag.Bool("figures", false, "print texts a second beside ONNX Runtime's")

// converted is the folder of all-MiniLM-L6-v2, and another one with the same weights as a GGUF file.
func converted(t *testing.T) (dir, folder, file string) {
	t.Helper()
	dir, err := models.Locate("all-MiniLM-L6-v2")
	if err != nil {
		t.Skipf("SKIP: %v", err)
	}
	folder = t.TempDir()
	file = filepath.Join(folder, "minilm.gguf")
	if err := generator.ConvertBERT(file, dir, 1); err != nil {
		t.Fatal(err)
	}
	return dir, folder, file
}

func open(t *testing.T, file string, o gguf.Options) *gguf.Encoder {
	t.Helper()
	e, err := gguf.Open(t.Context(), file, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func settings(t *testing.T, folder, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, "model.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// texts are short and long, empty, of other scripts and not UTF-8.
func texts() (all []string) {
	for i := range 24 {
		all = append(all, fmt.Sprintf("Sentence %d says %s.", i, strings.Repeat("that water opens the gate, ", 1+i%5)))
	}
	return append(all, "", "Straße nach Köln", "日本の首都は東京です", "a\x00b \xff c", strings.Repeat("long text ", 400))
}

func cosine(a, b []float32) (c float64) {
	for i := range a {
		c += float64(a[i]) * float64(b[i])
	}
	return c
}

// TestAgainstONNXRuntime: the same weights give the same vectors, tokens and counts through ONNX Runtime.
func TestAgainstONNXRuntime(t *testing.T) {
	race.Skip(t)
	dir, folder, file := converted(t)
	settings(t, folder, "name: minilm\npooling: mean\nnormalise: true\nmax_tokens: 256\n")
	other, err := embed.Open(t.Context(), dir, embed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	e := open(t, file, gguf.Options{})
	want, err := other.Embed(t.Context(), texts(), embed.Document)
	if err != nil {
		t.Fatal(err)
	}
	got, err := e.Embed(t.Context(), texts(), embed.Document)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Tokens, want.Tokens) || got.Truncated != want.Truncated || got.Repaired != want.Repaired ||
		got.Truncated != 1 || got.Repaired != 1 {
		t.Errorf("%v, %d cut, %d repaired; ONNX Runtime: %v, %d, %d", got.Tokens, got.Truncated, got.Repaired,
			want.Tokens, want.Truncated, want.Repaired)
	}
	least := 1.
	for i, text := range texts() {
		c := cosine(got.Row(i), want.Row(i))
		if least = min(least, c); !(c >= .9999) {
			t.Errorf("%.40q: cosine %v", text, c)
		}
		alone, err := e.Embed(t.Context(), []string{text}, embed.Query)
		if err != nil {
			t.Fatal(err)
		}
		if c := cosine(got.Row(i), alone.Row(0)); !(c >= .99999) {
			t.Errorf("%.40q: alone and together have a cosine of %v", text, c)
		}
		n, err := e.CountTokens(text)
		if whole, _ := other.CountTokens(text); err != nil || n != whole {
			t.Errorf("%.40q: %d tokens, %v; ONNX Runtime: %d", text, n, err, whole)
		}
	}
	t.Logf("least cosine 1 - %.2g", 1-least)
	if info := e.Info(); info.Dim != 384 || info.Name != "minilm" || !info.Normalised || info.MaxTokens != 256 ||
		info.Digest == other.Info().Digest {
		t.Errorf("%+v", info)
	}
	if !*figures {
		return
	}
	many := slices.Repeat(texts()[:24], 20)
	for name, embedder := range map[string]embed.Embedder{"llama.cpp": e, "ONNX Runtime": other} {
		started := time.Now()
		if _, err := embedder.Embed(t.Context(), many, embed.Document); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %.0f texts a second", name, float64(len(many))/time.Since(started).Seconds())
	}
}

// TestSettings: what model.yaml says goes before the file and changes the digest; prefixes are read by role.
func TestSettings(t *testing.T) {
	race.Skip(t)
	_, folder, file := converted(t)
	plain := open(t, file, gguf.Options{})
	if plain.Info().MaxTokens != 512 || plain.Info().Name != "minilm" {
		t.Errorf("%+v", plain.Info())
	}
	digests := map[string]string{plain.Info().Digest: "none"}
	for _, text := range []string{"pooling: cls\nnormalise: true", "pooling: mean",
		"pooling: mean\nnormalise: true\nmax_tokens: 99",
		"pooling: mean\nnormalise: true\nquery_prefix: \"query: \""} {
		settings(t, folder, text)
		e := open(t, file, gguf.Options{})
		if was, again := digests[e.Info().Digest]; again {
			t.Errorf("%q and %q have the same digest", text, was)
		}
		digests[e.Info().Digest] = text
		if strings.Contains(text, "prefix") {
			q, err := e.Embed(t.Context(), []string{"gate"}, embed.Query)
			d, err2 := plain.Embed(t.Context(), []string{"query: gate"}, embed.Document)
			if err != nil || err2 != nil || !slices.Equal(q.Data, d.Data) {
				t.Errorf("a prefix: %v, %v", err, err2)
			}
		}
	}
	for text, want := range map[string]error{"pooling: max": embed.ErrModel, "kind: reader": embed.ErrModel,
		"pooling: mean\nmax_tokens: 2": embed.ErrModel, "pooling: mean\nmax_tokens: 4000": llm.ErrOptions,
		":": embed.ErrModel} {
		settings(t, folder, text)
		if _, err := gguf.Open(t.Context(), file, gguf.Options{}); !errors.Is(err, want) {
			t.Errorf("%q: %v; want %v", text, err, want)
		}
	}
}

// TestTogether: many callers at once get the vectors that each gets alone, progress comes to its end, and a closed or
// cancelled encoder says so.
func TestTogether(t *testing.T) {
	race.Skip(t)
	_, _, file := converted(t)
	var done, total int
	e := open(t, file, gguf.Options{Progress: func(d, n int) { done, total = d, n }})
	want, err := e.Embed(t.Context(), texts()[:6], embed.Document)
	if err != nil || done != 6 || total != 6 {
		t.Fatalf("%d of %d, %v", done, total, err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			got, err := e.Embed(t.Context(), texts()[:6], embed.Document)
			if err != nil || !slices.Equal(got.Data, want.Data) {
				t.Errorf("other vectors beside others: %v", err)
			}
		})
	}
	wg.Wait()
	if s := e.Stats(); s.Calls != 5 || s.Texts != 30 {
		t.Errorf("%+v", s)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Embed(cancelled, texts(), embed.Document); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if none, err := e.Embed(t.Context(), nil, embed.Document); err != nil || len(none.Data) != 0 {
		t.Errorf("no texts: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if _, err := e.Embed(t.Context(), texts()[:1], embed.Document); !errors.Is(err, llm.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// TestNaN: a file whose weights are not finite is refused when the first vector is.
func TestNaN(t *testing.T) {
	race.Skip(t)
	_, _, file := converted(t)
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := len(raw) - 1<<20; i+4 <= len(raw); i += 4 { // a part of the word embeddings
		*(*[4]byte)(raw[i:]) = [4]byte{0, 0, 0xc0, 0x7f}
	}
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	e := open(t, file, gguf.Options{})
	if v, err := e.Embed(t.Context(), texts(), embed.Document); !errors.Is(err, llm.ErrEncode) {
		t.Errorf("%v, %v", v, err)
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	write := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if file, ok := gguf.Find(dir); ok {
		t.Errorf("an empty folder: %s", file)
	}
	want := write("a.GGUF")
	for _, path := range []string{dir, want} {
		if file, ok := gguf.Find(path); !ok || file != want {
			t.Errorf("%s: %s, %v", path, file, ok)
		}
	}
	write("model.safetensors")
	if file, ok := gguf.Find(dir); ok {
		t.Errorf("a folder with other weights, too: %s", file)
	}
	if file, ok := gguf.Find(filepath.Join(dir, "none.gguf")); ok {
		t.Errorf("a file that is not there: %s", file)
	}
}
