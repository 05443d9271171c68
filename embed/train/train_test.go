package train

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/internal/testmodels/checkpoint"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// words is a tokenizer that hashes words; 2 and 3 stand around a text.
type words struct{ vocab uint32 }

func (w words) Tokens(texts []string, prefix string, limit int) (ids [][]uint32, cut int, err error) {
	for _, t := range texts {
		row := []uint32{2}
		for _, word := range strings.Fields(prefix + t) {
			h := fnv.New32a()
			h.Write([]byte(word))
			row = append(row, 4+h.Sum32()%(w.vocab-4))
		}
		if len(row) > limit-1 {
			row = row[:limit-1]
			cut++
		}
		ids = append(ids, append(row, 3))
	}
	return ids, cut, nil
}

func (words) Digest() string { return "words" }

// model writes a small random encoder and returns its folder.
func model(t *testing.T, s checkpoint.Spec) string {
	t.Helper()
	dir := t.TempDir()
	if err := checkpoint.Write(dir, s); err != nil {
		t.Fatal(err)
	}
	return dir
}

var bert = checkpoint.Spec{Family: "bert", Layers: 3}

// bertDir returns a BERT whose LayerNorm has DistilBERT's epsilon.
func bertDir(t *testing.T) string {
	dir := model(t, bert)
	replace(t, filepath.Join(dir, "config.json"), `"layer_norm_eps":0.00001`, `"layer_norm_eps":1e-12`)
	return dir
}

func replace(t *testing.T, path, old, new string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(raw, []byte(old)) {
		t.Fatalf("%s has no %s: %s", path, old, raw)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(raw, []byte(old), []byte(new)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// colours are texts whose label is a word in them.
func colours(n int) string {
	var b strings.Builder
	names := []string{"red", "green", "blue"}
	for i := range n {
		fmt.Fprintf(&b, `{"text":"the gate number %d is %s today","label":"%s"}`+"\n", i, names[i%3], names[i%3])
	}
	return b.String()
}

func examples(t *testing.T, text string) *Examples {
	t.Helper()
	e, err := ReadExamples(strings.NewReader(text), "data.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func newEngine(t *testing.T, threads int) *engine.Engine {
	t.Helper()
	e, err := engine.New(engine.Options{Cores: cores.New(threads)})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// input returns a training of half a second.
func input(t *testing.T, from string) ClassifierInput {
	s := ClassifierDefaults()
	s.Epochs, s.Batch, s.Rate, s.ValidationShare, s.Patience = 3, 8, 1e-3, .2, 0
	return ClassifierInput{Training: examples(t, colours(60)), From: from, Out: filepath.Join(t.TempDir(), "out"),
		Settings: s, Tokenizer: words{60}, Engine: newEngine(t, 2)}
}

func trainOrFail(t *testing.T, in ClassifierInput) *Result {
	t.Helper()
	r, err := Classifier(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// weightsOf returns the file of a model.
func weightsOf(t *testing.T, dir string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestLearns: a word decides the label, so a few epochs must find it; and the folder is a whole model.
func TestLearns(t *testing.T) {
	from := bertDir(t)
	for _, layers := range []int{0, 1, AllLayers} {
		in := input(t, from)
		in.Settings.Layers, in.Settings.HeadRate, in.Settings.Epochs = layers, 1e-2, 8
		in.Test = examples(t, colours(90))
		var epochs []Epoch
		in.Hooks.Epoch = func(e Epoch) { epochs = append(epochs, e) }
		r := trainOrFail(t, in)
		if r.Test.Accuracy < .95 || r.Test.Examples != 90 || len(epochs) != 8 || r.Labels != 3 {
			t.Errorf("%d layers: %+v, test %+v after %d epochs", layers, r, r.Test, len(epochs))
		}
		if r.Calibration.ECE > r.Calibration.ECEBefore+.05 || r.Calibration.Threshold <= 0 {
			t.Errorf("%d layers: %+v", layers, r.Calibration)
		}
		entries, err := os.ReadDir(in.Out)
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if want := []string{"config.json", "model.safetensors", "model.yaml", "tokenizer.json"}; err != nil ||
			!slices.Equal(names, want) {
			t.Errorf("%d layers: %v, %v", layers, names, err)
		}
	}
}

// TestSameBits: on one thread and on three, in one go and interrupted after any step, a training gives the same bits.
func TestSameBits(t *testing.T) {
	from := bertDir(t)
	for name, change := range map[string]func(*Settings){
		"head":    func(s *Settings) { s.Layers = 0 },
		"layers":  func(s *Settings) { s.Layers, s.ClassWeights = 2, true },
		"dropout": func(s *Settings) { s.Layers, s.Dropout = AllLayers, .2 },
	} {
		t.Run(name, func(t *testing.T) {
			in := input(t, from)
			change(&in.Settings)
			in.Engine = newEngine(t, 1)
			trainOrFail(t, in)
			want := weightsOf(t, in.Out)
			for _, stop := range []int{0, 1, 5, 6, 7, 13} {
				in.Engine = newEngine(t, 3)
				in.Out = filepath.Join(t.TempDir(), "out")
				ctx, cancel := context.WithCancel(t.Context())
				in.Hooks.Step = func(done, _ int) {
					if done == stop {
						cancel()
					}
				}
				resumed := false
				in.Hooks.Resumed = func(_, step int) { resumed = step == stop }
				if stop > 0 {
					if _, err := Classifier(ctx, in); !errors.Is(err, context.Canceled) {
						t.Fatal(err)
					}
				}
				trainOrFail(t, in)
				cancel()
				if resumed != (stop > 0) {
					t.Errorf("stopped after step %d: resumed %v", stop, resumed)
				}
				if !bytes.Equal(weightsOf(t, in.Out), want) {
					t.Errorf("stopped after step %d: other bits", stop)
				}
			}
		})
	}
}

// TestFamilies: a BERT and the DistilBERT that is written from it give the same logits.
func TestFamilies(t *testing.T) {
	a, err := newMachine(newEngine(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range []checkpoint.Spec{{Family: "distilbert"}, {Family: "distilbert", Prefixed: true, DType: "F16"},
		{Family: "bert", Prefixed: true, Old: true, DType: "BF16"}, {Family: "bert"}} {
		dir := model(t, spec)
		if spec.Family == "bert" {
			replace(t, filepath.Join(dir, "config.json"), `"layer_norm_eps":0.00001`, `"layer_norm_eps":1e-12`)
		}
		n, err := loadDistil(dir, a)
		if err != nil {
			t.Fatal(err)
		}
		again := t.TempDir()
		if err := os.WriteFile(filepath.Join(again, "config.json"), []byte(configText(t, n)), 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(filepath.Join(again, "model.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(writeTensors(f, n.tensors(), nil), f.Close()); err != nil {
			t.Fatal(err)
		}
		m, err := loadDistil(again, a)
		if err != nil {
			t.Fatal(err)
		}
		n.addClassHead(3, 1)
		m.addClassHead(3, 1)
		b := newBatch([][]int32{{2, 5, 9, 3}, {2, 3}})
		logits := func(n *network[float32]) []float32 {
			n.arena.reset()
			x, err := n.features(b)
			if err != nil {
				t.Fatal(err)
			}
			p, err := n.decide(x, b)
			if err != nil {
				t.Fatal(err)
			}
			return slices.Clone(p.logits)
		}
		if got, want := logits(m), logits(n); !slices.Equal(got, want) {
			t.Errorf("%+v: %v, %v before it was written", spec, got, want)
		}
	}
}

// TestHalf compares with values of IEEE 754 binary16.
func TestHalf(t *testing.T) {
	for bits, want := range map[uint16]float32{0: 0, 0x3c00: 1, 0xc000: -2, 0x7bff: 65504, 0x0001: 1.0 / (1 << 24),
		0x03ff: 1023.0 / (1 << 24), 0x0400: 1.0 / (1 << 14), 0x3555: .333251953125} {
		if got := half(bits); got != want {
			t.Errorf("%#04x is %v, %v expected", bits, got, want)
		}
	}
	if v := half(0x7c01); v == v {
		t.Error("a float16 NaN is", v)
	}
}

func configText(t *testing.T, n *network[float32]) string {
	t.Helper()
	raw, err := json.Marshal(n.config())
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestInterruptedBeforeTheFirstStep: nothing is made while frozen layers read the texts.
func TestInterruptedBeforeTheFirstStep(t *testing.T) {
	in := input(t, bertDir(t))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	in.Hooks.Prepare = func(done, total int) {
		if done < 1 || done > total {
			t.Errorf("%d of %d texts", done, total)
		}
		cancel()
	}
	if _, err := Classifier(ctx, in); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := os.Stat(in.Out); !errors.Is(err, os.ErrNotExist) {
		t.Error("the folder of the result was made")
	}
}

// TestFrozenLayersDropNothing: the features of a text are the same whether they are kept or computed in each step.
func TestFrozenLayersDropNothing(t *testing.T) {
	n := random[float64](plain[float64]{}, shape{Hidden: 8, Layers: 2, Heads: 2, Intermediate: 12, Vocab: 9,
		Positions: 5, Epsilon: 1e-12}, 3, 1)
	b := newBatch([][]int32{{2, 5, 8, 3}, {2, 3}})
	want, err := n.features(b)
	if err != nil {
		t.Fatal(err)
	}
	n.dropout = dropout{rate: .5, seed: 1}
	if got, err := n.features(b); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; %v without dropout", got, err, want)
	}
	if n.dropout.rate != .5 {
		t.Error("the rate of the trained layers is", n.dropout.rate)
	}
}
