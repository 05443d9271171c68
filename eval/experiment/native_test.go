//go:build native

package experiment_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/eval/dataset"
	"github.com/sluice-rag/sluice/eval/experiment"
	"github.com/sluice-rag/sluice/internal/models"
)

// TestNative: real models, two precisions of the encoder, a generator and a requantised judge, whose replies follow the
// grammars.
func TestNative(t *testing.T) {
	for _, locate := range []error{err2(models.Locate("all-MiniLM-L6-v2")),
		err2(models.LocateGGUF("SmolLM2-135M-Instruct"))} {
		if locate != nil {
			t.Skipf("SKIP: a default model is not there: %v", locate)
		}
	}
	data := t.TempDir()
	var contexts, queries strings.Builder
	for i, c := range [][3]string{{"Paris is the capital of France.", "What is the capital of France?", "Paris"},
		{"The herring eats plankton.", "What does the herring eat?", "plankton"},
		{"Go was designed at Google in 2007.", "When was Go designed?", "2007"}} {
		fmt.Fprintf(&contexts, "{\"id\":\"c%d\",\"text\":%q}\n", i, c[0])
		fmt.Fprintf(&queries, "{\"id\":\"q%d\",\"context_id\":\"c%[1]d\",\"text\":%q,\"answers\":[%q]}\n", i, c[1],
			c[2])
	}
	for name, text := range map[string]string{dataset.ContextsFile: contexts.String(),
		dataset.QueriesFile: queries.String()} {
		if err := os.WriteFile(filepath.Join(data, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := experiment.Parse([]byte(`name: native
judge: "SmolLM2-135M-Instruct:Q4_0"
parts:
  - name: search
    encoders: [{precision: f32}, {precision: int8}]
    retrievers: [{mode: dense, k: 2}, {mode: hybrid, k: 2}]
    measures: [ndcg@2]
  - name: answers
    best: {of: search, by: ndcg@2, k: 1}
    generators: [{model: SmolLM2-135M-Instruct, max_tokens: 16, no_repeat_ngram: 3}]
    measures: [csga, correct, context_relevancy]
`))
	if err != nil {
		t.Fatal(err)
	}
	r, err := experiment.Run(t.Context(), experiment.Options{File: f, Data: data, Out: t.TempDir(),
		Config: sluice.Config{ContextTokens: 1024, Slots: 1}})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range r.Rows {
		if x.Measure == "ndcg@2" && x.Mean != 1 {
			t.Errorf("%+v", x)
		}
	}
	for _, m := range []string{"csga", "correct", "context_relevancy"} {
		if x := value(t, r, "answers", "", experiment.Answerable, m); x.N != 3 || x.Unscored != 0 {
			t.Errorf("%+v", x)
		}
	}
}

// TestDistilBERT: one that is trained from the default encoder learns which of two topics a question is of, on each
// draw, and is read by the ONNX Runtime; a second run computes nothing.
func TestDistilBERT(t *testing.T) {
	if err := err2(models.Locate("all-MiniLM-L6-v2")); err != nil {
		t.Skipf("SKIP: the default encoder is not there: %v", err)
	}
	data, out := t.TempDir(), t.TempDir()
	var contexts, queries strings.Builder
	for i := range 15 {
		for topic, words := range map[string]string{"go": "goroutine, channel and compiler",
			"sea": "herring, wave and ship"} {
			fmt.Fprintf(&contexts, "{\"id\":\"%s%d\",\"topic\":%[1]q,\"text\":%[3]q}\n", topic, i, words)
			fmt.Fprintf(&queries, "{\"id\":\"%[1]s%[2]d\",\"context_id\":\"%[1]s%[2]d\",\"topic\":%[1]q,"+
				"\"text\":\"What is number %[2]d of %[3]s?\"}\n", topic, i, words)
		}
	}
	for name, text := range map[string]string{dataset.ContextsFile: contexts.String(),
		dataset.QueriesFile: queries.String()} {
		if err := os.WriteFile(filepath.Join(data, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := experiment.Parse([]byte(`name: d
parts:
  - {name: classifiers, kind: classifiers, base: {draws: 2}, systems: [{classifier: distilbert}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	for again := range 2 {
		r, err := experiment.Run(t.Context(), experiment.Options{File: f, Data: data, Out: out})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []string{"train accuracy", "test accuracy", "f1"} {
			if x := value(t, r, "classifiers", "distilbert", "test", m); x.Mean != 1 || x.N != 6 {
				t.Errorf("%+v", x)
			}
		}
		if x := value(t, r, "classifiers", "distilbert", "test", "seconds"); x.Mean <= 0 || r.Resumed != again {
			t.Errorf("%+v, %d resumed", x, r.Resumed)
		}
	}
}

func err2(_ string, err error) error { return err }
