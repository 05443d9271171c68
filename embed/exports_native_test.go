//go:build native

package embed

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/embed/onnx"
	"github.com/sluice-rag/sluice/internal/testmodels/checkpoint"
)

// exportHead is export for a head, of sequences with two token types.
func exportHead(t *testing.T, from string, task onnx.Task, config string) string {
	t.Helper()
	to := export(t, from, task, ".")
	g, err := onnx.Write(from, onnx.Options{Task: task, Types: 1, Standard: true})
	if err != nil {
		t.Fatal(err)
	}
	put(t, to, "model.onnx", string(g.ONNX))
	put(t, to, "config.json", config)
	return to
}

const foreign = `{"model_type":"nomic_bert","max_position_embeddings":80,"pad_token_id":0`

func TestExportedHeads(t *testing.T) {
	needLibrary(t)
	texts := smallTexts()
	dir := writeCheckpoint(t, checkpoint.Spec{Family: "bert", Kind: "reranker", Labels: []string{"x"}})
	own, err := openReranker(t, dir, Options{}).Score(t.Context(), "the gate", texts)
	if err != nil {
		t.Fatal(err)
	}
	got, err := openReranker(t, exportHead(t, dir, onnx.Classify, foreign+"}"), Options{}).Score(t.Context(),
		"the gate",
		texts)
	if err != nil {
		t.Fatal(err)
	}
	if d := worst32(got.Logits, own.Logits); !(d <= 2e-6) {
		t.Errorf("reranker: max |d| %g", d)
	}
	dir = writeCheckpoint(t, checkpoint.Spec{Family: "bert", Labels: []string{"a", "b", "c"}})
	c := openClassifier(t, exportHead(t, dir, onnx.Classify, foreign+`,"problem_type":"multi_label_classification"}`))
	classes, err := c.Classify(t.Context(), texts)
	if err != nil || !slices.Equal(classes.Labels, onnx.NumberedLabels(3)) {
		t.Errorf("%v, %v", classes, err)
	}
	if p := 1 / (1 + math.Exp(-float64(classes.Logits[0]))); math.Abs(p-float64(classes.Probabilities[0])) > 1e-6 {
		t.Errorf("probability %g, expected %g", classes.Probabilities[0], p)
	}
	two := exportHead(t, dir, onnx.Classify, foreign+`,"id2label":{"0":"a","1":"b"}}`)
	if _, err := OpenClassifier(t.Context(), two, Options{}); !errors.Is(err, ErrModel) ||
		!strings.Contains(err.Error(), "id2label has 2 labels") {
		t.Errorf("%v", err)
	}
	dir = writeCheckpoint(t, checkpoint.Spec{Family: "bert", Kind: "token-classifier", Labels: entityLabels})
	want, err := openTokenClassifier(t, dir).Spans(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	named := foreign + `,"id2label":{"0":"O","1":"B-PER","2":"I-PER","3":"B-LOC","4":"I-LOC"}}`
	spans, err := openTokenClassifier(t, exportHead(t, dir, onnx.Tokens, named)).Spans(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	for i := range texts {
		if !slices.EqualFunc(spans.Texts[i], want.Texts[i], func(a, b Span) bool {
			return a.Label == b.Label && a.Start == b.Start && a.End == b.End
		}) {
			t.Errorf("text %d: %+v, expected %+v", i, spans.Texts[i], want.Texts[i])
		}
	}
	put(t, dir, "model.yaml", "kind: classifier")
	texty := exportHead(t, dir, onnx.Tokens, foreign+"}")
	put(t, texty, "model.yaml", "kind: classifier")
	if _, err := OpenClassifier(t.Context(), texty, Options{}); !errors.Is(err, ErrModel) ||
		!strings.Contains(err.Error(), "[batch, labels]") {
		t.Errorf("a head of tokens as one of texts: %v", err)
	}
}

func TestKindOf(t *testing.T) {
	for _, c := range []struct {
		spec checkpoint.Spec
		want string
	}{
		{checkpoint.Spec{Family: "bert"}, KindEncoder},
		{checkpoint.Spec{Family: "bert", Labels: []string{"a"}}, KindClassifier},
		{checkpoint.Spec{Family: "bert", Labels: []string{"a"}, Kind: "reranker"}, KindReranker},
		{checkpoint.Spec{Family: "bert", Labels: []string{"a"}, Kind: "token-classifier", Bare: true},
			KindTokenClassifier},
		{checkpoint.Spec{Family: "distilbert", Labels: []string{"a", "b"}, Bare: true}, KindClassifier},
		{checkpoint.Spec{Family: "distilbert", Bare: true}, ""},
		{checkpoint.Spec{Family: "roberta", Kind: "reader"}, KindReader},
	} {
		if got, err := KindOf(writeCheckpoint(t, c.spec)); err != nil || got != c.want {
			t.Errorf("%+v: %q, %v", c.spec, got, err)
		}
	}
	dir := t.TempDir()
	put(t, dir, "config.json", "[")
	if _, err := KindOf(dir); !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), "config.json") {
		t.Errorf("%v", err)
	}
	put(t, dir, "model.yaml", "kind: poem")
	if _, err := KindOf(dir); !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), "poem") {
		t.Errorf("%v", err)
	}
	if _, err := KindOf(dir + "/none"); !errors.Is(err, ErrModel) {
		t.Errorf("%v", err)
	}
}

// Texts far beyond what a model reads are cut, and counted, with and without a space to cut at; token classifiers read
// them whole, in windows.
func TestHeadsOfLongTexts(t *testing.T) {
	words, solid := strings.Repeat("the gate opens. ", 100_000/16), strings.Repeat("gate", 25_000)
	texts := []string{words, solid, "near"}
	c := openClassifier(t, writeCheckpoint(t, checkpoint.Spec{Family: "roberta", Labels: []string{"a", "b"}}))
	classes, err := c.Classify(t.Context(), texts)
	if err != nil || classes.Truncated != 2 || classes.Tokens[0] != c.Info().MaxTokens {
		t.Errorf("%+v, %v", classes, err)
	}
	k := openTokenClassifier(t, writeCheckpoint(t, checkpoint.Spec{Family: "roberta", Kind: "token-classifier",
		Labels: []string{"B-X", "I-X"}}))
	spans, err := k.Spans(t.Context(), texts)
	if err != nil || spans.Truncated != 0 {
		t.Fatalf("%d cut, %v", spans.Truncated, err)
	}
	for i, list := range spans.Texts {
		if n := len(list); n == 0 || list[n-1].End > len(texts[i]) || list[n-1].End < len(texts[i])-1 {
			t.Errorf("text %d: %d parts", i, n)
		}
	}
	r := openReranker(t, writeCheckpoint(t, checkpoint.Spec{Family: "deberta-v2", Kind: "reranker",
		Labels: []string{"x"}}), Options{})
	scores, err := r.Score(t.Context(), words, texts) // solid is one unknown word to its tokenizer
	if err != nil || scores.Truncated != 3 || scores.QueryTruncated != 3 || scores.Tokens[0] != r.Info().MaxTokens {
		t.Errorf("%+v, %v", scores, err)
	}
}
