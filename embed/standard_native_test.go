//go:build native

package embed

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/internal/testmodels/checkpoint"
)

// standardOnCPU returns the provider of a GPU's graphs, but computed by ONNX Runtime on the CPU.
func standardOnCPU(t testing.TB) *provider {
	t.Helper()
	needLibrary(t)
	p, err := onCPU(Options{})
	if err != nil {
		t.Fatal(err)
	}
	p.standard = true
	return p
}

// openStandard is openModel with a standard graph.
func openStandard(t testing.TB, dir, kind string) *model {
	t.Helper()
	o := Options{MaxBatchTokens: 300}
	m, err := newModel(dir, kind, o)
	if err == nil {
		err = m.open(t.Context(), dir, kind, o, standardOnCPU(t))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// TestStandardGraphs: what a GPU computes gives, by ONNX Runtime's own operators on the CPU, what our operators give,
// for every family, with texts of different lengths in a padded batch.
func TestStandardGraphs(t *testing.T) {
	race.Skip(t)
	deberta := func(d checkpoint.Deberta) checkpoint.Spec { return checkpoint.Spec{Family: "deberta-v2", Deberta: d} }
	for _, s := range []checkpoint.Spec{
		{Family: "bert", Normalise: true},
		{Family: "bert", Prefixed: true, Pooling: "cls", DType: "F16"},
		{Family: "bert", Hidden: 48, Heads: 3, Layers: 3, Act: "gelu_new", DType: "BF16"},
		{Family: "distilbert", Normalise: true, Act: "relu"},
		{Family: "roberta", Prefixed: true},
		{Family: "xlm-roberta", Pooling: "cls", Normalise: true},
		{Family: "camembert"},
		{Family: "mpnet", Normalise: true, Positions: 200},
		deberta(checkpoint.Deberta{}),
		deberta(checkpoint.Deberta{Embedding: 16, Biased: true, Types: 2, Separate: true, Plain: true}),
		deberta(checkpoint.Deberta{Buckets: -1, Farthest: 20, Kinds: []string{"c2p"}}),
		deberta(checkpoint.Deberta{Buckets: 4, Kinds: []string{"p2c"}}),
		deberta(checkpoint.Deberta{Kinds: []string{}}),
		{Family: "bert", Prefixed: true, Labels: []string{"no", "yes", "maybe"}},
		{Family: "distilbert", Prefixed: true, Labels: []string{"a", "b"}},
		{Family: "xlm-roberta", Prefixed: true, Labels: []string{"one"}},
		{Family: "deberta-v2", Prefixed: true, Labels: []string{"one", "two"}},
		{Family: "bert", Kind: "token-classifier", Labels: entityLabels},
		{Family: "deberta-v2", Kind: "token-classifier", Labels: entityLabels},
	} {
		t.Run(fmt.Sprintf("%s %s %s %+v labels=%d %s", s.Family, s.DType, s.Act, s.Deberta, len(s.Labels), s.Kind),
			func(t *testing.T) {
				kind := cmp.Or(s.Kind, KindEncoder)
				if s.Kind == "" && len(s.Labels) > 0 {
					kind = KindClassifier
				}
				dir := writeCheckpoint(t, s)
				own, err := openModel(t.Context(), dir, kind, Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer own.Close()
				standard := openStandard(t, dir, kind)
				texts := smallTexts()
				want, err := own.infer(t.Context(), len(texts), own.texts(texts, Document))
				if err != nil {
					t.Fatal(err)
				}
				got, err := standard.infer(t.Context(), len(texts), standard.texts(texts, Document))
				if err != nil {
					t.Fatal(err)
				}
				scale := 0.
				for _, x := range want.data {
					scale = max(scale, math.Abs(float64(x)))
				}
				if d := worst32(got.data, want.data); scale == 0 || !(d <= 4e-6*max(scale, 1)) {
					t.Errorf("max |d| = %g at a scale of %g", d, scale)
				}
				if own.info.Digest != standard.info.Digest {
					t.Error("the graph's operators are part of the digest")
				}
			})
	}
}

// TestStandardRerankers: pairs with token types.
func TestStandardRerankers(t *testing.T) {
	for _, s := range []checkpoint.Spec{
		{Family: "bert", Kind: KindReranker, Labels: []string{"x"}},
		{Family: "deberta-v2", Kind: KindReranker, Labels: []string{"x"}, Deberta: checkpoint.Deberta{Types: 2}},
	} {
		dir := writeCheckpoint(t, s)
		want, err := openReranker(t, dir, Options{}).Score(t.Context(), "the gate", smallTexts())
		if err != nil {
			t.Fatal(err)
		}
		got, err := (&Reranker{openStandard(t, dir, KindReranker)}).Score(t.Context(), "the gate", smallTexts())
		if err != nil {
			t.Fatal(err)
		}
		if d := worst32(got.Logits, want.Logits); !(d <= 4e-6) {
			t.Errorf("%s: max |d| %g", s.Family, d)
		}
	}
}

// TestStandardGolden: the default encoder's standard graph is as near to float64 as ours.
func TestStandardGolden(t *testing.T) {
	race.Skip(t)
	r, err := Golden(t.Context(), &Encoder{openStandard(t, minilm(t), KindEncoder)})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", *r)
}

func TestDevices(t *testing.T) {
	for name, want := range map[string]place{"": {}, "cpu": {}, "auto": {gpu: true}, "cuda": {gpu: true, must: true},
		"cuda:1": {gpu: true, ordinal: 1, must: true}} {
		if got, err := parsePlace(name); err != nil || got != want {
			t.Errorf("%q: %+v, %v", name, got, err)
		}
	}
	for _, name := range []string{"gpu", "cuda:", "cuda:-1", "cuda:x", "cuda:99999", "CUDA"} {
		if _, err := parsePlace(name); !errors.Is(err, ErrDevice) || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestOnGPU: with SLUICE_TEST_GPU=1 and ONNX Runtime's build for GPUs, the vectors of a real GPU are the CPU's within
// 1e-5 of their scale (run-gpu).
func TestOnGPU(t *testing.T) {
	if os.Getenv("SLUICE_TEST_GPU") == "" {
		t.Skip("SKIP: needs a GPU: SLUICE_TEST_GPU=1")
	}
	library, err := GPULibrary(DeviceCUDA)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []checkpoint.Spec{{Family: "bert", Normalise: true}, {Family: "distilbert"}, {Family: "roberta"},
		{Family: "mpnet", Normalise: true, Positions: 200}, {Family: "deberta-v2", Normalise: true},
		{Family: "bert", Hidden: 384, Heads: 12, Layers: 6, Positions: 512, Normalise: true}} {
		dir := writeCheckpoint(t, s)
		var got [2]*Embeddings
		for i, o := range []Options{{Library: library}, {Library: library, Device: DeviceCUDA}} {
			e, err := Open(t.Context(), dir, o)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(e.Info().Runtime)
			if got[i], err = e.Embed(t.Context(), smallTexts(), Document); err != nil {
				t.Error(err)
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
		scale := 1.
		for _, x := range got[0].Data {
			scale = max(scale, math.Abs(float64(x)))
		}
		if d := worst32(got[1].Data, got[0].Data); !(d <= runtimeTolerance*scale) {
			t.Errorf("%s: max |d| = %g at a scale of %g", s.Family, d, scale)
		}
	}
}
