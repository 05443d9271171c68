//go:build native

package llm

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/internal/testmodels/generator"
)

// minilm writes all-MiniLM-L6-v2 as a GGUF file of float32.
func minilm(t *testing.T, pooling int) string {
	t.Helper()
	dir, err := models.Locate("all-MiniLM-L6-v2")
	if err != nil {
		t.Skipf("SKIP: %v", err)
	}
	path := filepath.Join(t.TempDir(), "minilm.gguf")
	if err := generator.ConvertBERT(path, dir, pooling); err != nil {
		t.Fatal(err)
	}
	return path
}

func openEncoder(t *testing.T, path string, o EncoderOptions) *Encoder {
	t.Helper()
	e, err := OpenEncoder(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// rows are the vectors of texts, of length 1, computed in batches of the given number.
func rows(t *testing.T, e *Encoder, texts [][]int32, together int) (out [][]float64) {
	t.Helper()
	for len(texts) > 0 {
		n := min(together, len(texts))
		data := make([]float32, n*e.Dim())
		if err := e.Encode(t.Context(), texts[:n], data); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			var sum float64
			row := make([]float64, e.Dim())
			for j, x := range data[i*e.Dim() : (i+1)*e.Dim()] {
				row[j] = float64(x)
				sum += row[j] * row[j]
			}
			for j := range row {
				row[j] /= math.Sqrt(sum)
			}
			out = append(out, row)
		}
		texts = texts[n:]
	}
	return out
}

// TestEncoderAgainstGolden: texts have the tokens that the tokenizers library gives them, and vectors near PyTorch's.
// The difference has the size of float16's rounding: ggml takes GELU from a table of float16.
func TestEncoderAgainstGolden(t *testing.T) {
	race.Skip(t)
	e := openEncoder(t, minilm(t, 1), EncoderOptions{MaxTokens: 256, Threads: 1})
	raw, err := os.ReadFile("../embed/testdata/golden-minilm.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Texts []struct {
			Text       string
			Tokens     int
			First      []float64
			Projection float64
		}
	}
	if err := json.Unmarshal(raw, &golden); err != nil {
		t.Fatal(err)
	}
	var all [][]int32
	for _, g := range golden.Texts {
		ids, err := e.Tokenize(g.Text)
		if err != nil {
			t.Fatal(err)
		}
		if len(ids) > 256 {
			ids = append(ids[:255], ids[len(ids)-1])
		}
		if len(ids) != g.Tokens {
			t.Errorf("%.40q: %d tokens, %d expected", g.Text, len(ids), g.Tokens)
		}
		all = append(all, ids)
	}
	worst := 0.
	for i, row := range rows(t, e, all, 1) {
		var projection float64
		for j, x := range row {
			projection += x * float64(1-2*(bits.OnesCount(uint(j))%2))
		}
		off := math.Abs(projection/math.Sqrt(float64(len(row))) - golden.Texts[i].Projection)
		for j, want := range golden.Texts[i].First {
			off = max(off, math.Abs(row[j]-want))
		}
		worst = max(worst, off)
	}
	if t.Logf("%d texts, largest difference of a component %.2g", len(all), worst); !(worst <= 5e-4) {
		t.Errorf("off by %.3g", worst)
	}
}

// TestEncoderBatches: a text has nearly the same vector alone and beside others, whichever way a model pools and
// whether its attention looks both ways or back, and nothing of an earlier call stays. Products of several texts round
// in another order, and the float16 table of GELU turns the last bit of its input into 1e-4 of a component.
func TestEncoderBatches(t *testing.T) {
	race.Skip(t)
	causal, _ := generator.Preset("qwen2")
	path := filepath.Join(t.TempDir(), "causal.gguf")
	if err := generator.Write(path, causal); err != nil {
		t.Fatal(err)
	}
	both := minilm(t, 1)
	for name, x := range map[string]struct{ path, pooling string }{
		"mean": {both, ""}, "cls": {both, "cls"}, "last": {path, "last"}, "mean of a decoder": {path, "mean"},
	} {
		t.Run(name, func(t *testing.T) {
			e := openEncoder(t, x.path, EncoderOptions{Pooling: x.pooling, MaxTokens: 256, Threads: 1})
			var texts [][]int32
			for i := range 15 {
				text := strings.Repeat("the gate opens ", i%4) + "water " + string(rune('a'+i%26))
				ids, err := e.Tokenize(text)
				if err != nil {
					t.Fatal(err)
				}
				texts = append(texts, ids)
			}
			alone, together := rows(t, e, texts, 1), rows(t, e, texts, 5)
			again := rows(t, e, texts, 1)
			least := 1.
			for i := range alone {
				cosine := 0.
				for j := range alone[i] {
					cosine += alone[i][j] * together[i][j]
				}
				if least = min(least, cosine); !slices.Equal(alone[i], again[i]) {
					t.Errorf("text %d: %v, and then %v", i, alone[i][:3], again[i][:3])
				}
			}
			if t.Logf("least cosine 1 - %.2g", 1-least); !(least >= .99999) {
				t.Errorf("alone and together have a cosine of %v", least)
			}
		})
	}
}

func TestEncoderRefuses(t *testing.T) {
	race.Skip(t)
	causal, _ := generator.Preset("llama-bpe")
	generates := filepath.Join(t.TempDir(), "generator.gguf")
	if err := generator.Write(generates, causal); err != nil {
		t.Fatal(err)
	}
	unsaid, ranks := minilm(t, 0), minilm(t, 4)
	short := filepath.Join(t.TempDir(), "short.gguf")
	raw, err := os.ReadFile(unsaid)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(short, raw[:len(raw)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, x := range map[string]struct {
		ctx  context.Context
		path string
		o    EncoderOptions
		want error
	}{
		"a generator says no pooling": {t.Context(), generates, EncoderOptions{}, ErrPooling},
		"nothing says the pooling":    {t.Context(), unsaid, EncoderOptions{}, ErrPooling},
		"a reranker":                  {t.Context(), ranks, EncoderOptions{}, ErrPooling},
		"an unknown pooling":          {t.Context(), unsaid, EncoderOptions{Pooling: "max"}, ErrPooling},
		"too long texts": {t.Context(), unsaid, EncoderOptions{Pooling: "cls", MaxTokens: 513},
			ErrOptions},
		"a batch below a text": {t.Context(), unsaid, EncoderOptions{Pooling: "cls", MaxTokens: 99,
			BatchTokens: 98}, ErrOptions},
		"half a file": {t.Context(), short, EncoderOptions{Pooling: "cls"}, ErrModel},
		"cancelled":   {cancelled, unsaid, EncoderOptions{Pooling: "cls"}, context.Canceled},
	} {
		if e, err := OpenEncoder(x.ctx, x.path, x.o); !errors.Is(err, x.want) {
			t.Errorf("%s: %v, %v; want %v", name, e, err, x.want)
		}
	}
	e := openEncoder(t, unsaid, EncoderOptions{Pooling: "mean", MaxTokens: 8})
	row := make([]float32, e.Dim())
	if err := e.Encode(cancelled, [][]int32{{101, 102}}, row); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	for name, texts := range map[string][][]int32{"none": {}, "an empty one": {{}}, "two, room for one": {{101}, {102}},
		"one beyond the batch": {make([]int32, 1000)}, "a token that is not there": {{101, 1 << 30}}} {
		if err := e.Encode(t.Context(), texts, row); !errors.Is(err, ErrOptions) && !errors.Is(err, ErrEncode) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := errors.Join(e.Close(), e.Close()); err != nil {
		t.Error(err)
	}
	if err := e.Encode(t.Context(), [][]int32{{101, 102}}, row); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}
