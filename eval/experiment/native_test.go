//go:build native

package experiment_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/eval/dataset"
	"github.com/sluice-rag/sluice/eval/experiment"
	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/internal/testmodels/checkpoint"
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

// topics returns the folder of a dataset with 15 questions of each of two topics.
func topics(t *testing.T) string {
	t.Helper()
	data := t.TempDir()
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
	return data
}

// TestDistilBERT: one that is trained from the default encoder learns which of two topics a question is of, on each
// draw, and is read by the ONNX Runtime; a second run computes nothing.
func TestDistilBERT(t *testing.T) {
	if err := err2(models.Locate("all-MiniLM-L6-v2")); err != nil {
		t.Skipf("SKIP: the default encoder is not there: %v", err)
	}
	data, out := topics(t), t.TempDir()
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

// TestInterruptedTrainingGoesOn checks that a run that is interrupted in each draw's training, and once at its end,
// resumes there, with results bit-identical to an uninterrupted run.
func TestInterruptedTrainingGoesOn(t *testing.T) {
	data, encoder := topics(t), t.TempDir()
	if err := checkpoint.Write(encoder, checkpoint.Spec{Family: "distilbert"}); err != nil {
		t.Fatal(err)
	}
	f, err := experiment.Parse(fmt.Appendf(nil, `name: d
parts:
  - {name: classifiers, kind: classifiers, base: {draws: 2}, encoders: [{name: %s}],
     systems: [{classifier: distilbert}]}
`, encoder))
	if err != nil {
		t.Fatal(err)
	}
	whole, killed := t.TempDir(), t.TempDir()
	steps := 0 // of all trainings together
	if _, err := experiment.Run(t.Context(), experiment.Options{File: f, Data: data, Out: whole,
		Training: func(string, int, int) { steps++ }}); err != nil {
		t.Fatal(err)
	}
	made := 0
	for stops := 0; ; stops++ {
		ctx, stop := context.WithCancel(t.Context())
		first := made
		_, err := experiment.Run(ctx, experiment.Options{File: f, Data: data, Out: killed,
			Training: func(_ string, done, total int) {
				if made++; made-first == 3 || done == total {
					stop()
				}
			}})
		stop()
		if err == nil {
			if stops < 2 {
				t.Errorf("it was interrupted %d times only", stops)
			}
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if made != steps {
		t.Errorf("%d steps, %d without an interrupt", made, steps)
	}
	if a, b := trainedModels(t, whole), trainedModels(t, killed); len(a) != 2 || !slices.Equal(a, b) {
		t.Errorf("other models: %v, and %v with interrupts", a, b)
	}
	if left, _ := filepath.Glob(filepath.Join(killed, "work", "distilbert-*")); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}

// trainedModels returns the digests and scores, but for the seconds, of the models in a journal.
func trainedModels(t *testing.T, out string) (list []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(out, "journal.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var l struct {
			ID   string
			Item experiment.Item
		}
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatal(err)
		}
		if l.Item.Model != "" {
			delete(l.Item.Scores, "seconds")
			list = append(list, fmt.Sprint(l.ID, l.Item.Model, l.Item.Scores))
		}
	}
	return list
}

func err2(_ string, err error) error { return err }
