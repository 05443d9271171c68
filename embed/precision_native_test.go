//go:build native

package embed

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/embed/onnx"
	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/internal/testmodels/checkpoint"
)

var precisions = []Precision{F32, Int8}

// A text's vector has the same bits alone, in batches of any size and order, and with any number of workers.
func TestVectorsDoNotDependOnTheBatch(t *testing.T) {
	race.Skip(t)
	texts := append(goldenTexts(), "one", "two words", "three short words")
	for len(texts) < 64 {
		texts = append(texts, strings.Repeat("a gate and its water ", len(texts)%23)+texts[len(texts)%11])
	}
	for _, p := range precisions {
		t.Run(string(p), func(t *testing.T) {
			want := map[string][]float32{}
			alone := openEncoder(t, minilm(t), Options{Precision: p, Workers: 1})
			for _, text := range texts {
				want[text] = embedAll(t, alone, []string{text}, Document).Data
			}
			for _, o := range []Options{
				{}, {MaxBatchTokens: 64}, {MaxBatchTokens: 8192, Workers: 1, Cores: cores.New(2)},
			} {
				o.Precision = p
				e := openEncoder(t, minilm(t), o)
				slices.Reverse(texts)
				got := embedAll(t, e, texts, Document)
				for i, text := range texts {
					if !slices.Equal(got.Row(i), want[text]) {
						t.Fatalf("%+v: text %d has other bits than alone", o, i)
					}
				}
			}
		})
	}
}

// The vectors of 8 bits stay near those of f32: the mean and the lowest cosine over squad16's contexts are those that
// the documentation promises.
func TestInt8IsNearF32(t *testing.T) {
	race.Skip(t)
	texts := squad(t, "contexts")
	for i := range texts[:len(texts)/4] { // every fourth, for time
		texts[i] = texts[4*i]
	}
	texts = texts[:len(texts)/4]
	exact := embedAll(t, openEncoder(t, minilm(t), Options{}), texts, Document)
	coded := embedAll(t, openEncoder(t, minilm(t), Options{Precision: Int8}), texts, Document)
	lowest, mean := 1.0, 0.0
	for i := range texts {
		var dot float64
		for j, x := range exact.Row(i) {
			dot += float64(x) * float64(coded.Row(i)[j])
		}
		lowest, mean = min(lowest, dot), mean+dot/float64(len(texts))
	}
	t.Logf("cosine to f32: mean %.6f, lowest %.6f", mean, lowest)
	if !(mean >= .9995 && lowest >= .998) {
		t.Errorf("cosine to f32: mean %.6f, lowest %.6f; .9995 and .998 expected", mean, lowest)
	}
}

// int8 is another encoder: by digest and by name, which leads back to it.
func TestPrecisionIsPartOfTheIdentity(t *testing.T) {
	needLibrary(t)
	dir := t.TempDir()
	if err := checkpoint.Write(dir, checkpoint.Spec{Family: "bert"}); err != nil {
		t.Fatal(err)
	}
	plain, named := openEncoder(t, dir, Options{}).Info(), openEncoder(t, dir, Options{Precision: F32}).Info()
	coded := openEncoder(t, dir, Options{Precision: Int8}).Info()
	if !plain.Same(named.Encoder) || coded.Same(plain.Encoder) {
		t.Errorf("%v, %v and %v", plain.Encoder, named.Encoder, coded.Encoder)
	}
	if name, p, _ := SplitName(coded.Name); name != plain.Name || p != Int8 || coded.Runtime.Precision != "int8" {
		t.Errorf("%q is %q in %q, computed in %q", coded.Name, name, p, coded.Runtime.Precision)
	}
	if name, p, _ := SplitName(plain.Name); name != plain.Name || p != "" {
		t.Errorf("%q is %q in %q", plain.Name, name, p)
	}
	if _, err := Open(t.Context(), dir, Options{Precision: "f16"}); !errors.Is(err, ErrModel) ||
		!strings.Contains(err.Error(), "known are f32 and int8") {
		t.Errorf("f16: %v", err)
	}
	ready := export(t, dir, onnx.Hidden, "onnx")
	if _, err := Open(t.Context(), ready, Options{Precision: Int8}); !errors.Is(err, ErrModel) ||
		!strings.Contains(err.Error(), "a ready export computes as it is written") {
		t.Errorf("a ready export: %v", err)
	}
}
