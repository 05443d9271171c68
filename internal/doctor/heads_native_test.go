//go:build native

package doctor

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/testmodels/checkpoint"
)

// A classifier of either kind and a reranker are loaded and labelled with; one whose weights are cut short has failed.
func TestHeads(t *testing.T) {
	write := func(kind string, labels ...string) string {
		dir := filepath.Join(t.TempDir(), kind)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := checkpoint.Write(dir, checkpoint.Spec{Family: "bert", Kind: kind, Labels: labels}); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	o := Options{Config: sluice.Config{Classifier: write("classifier", "a", "b"), Reranker: write("reranker", "x"),
		Entailment: write("entailment", "contradiction", "ENTAILMENT", "neutral")}}
	for _, c := range slices.Concat(classifier(t.Context(), o), reranker(t.Context(), o), entailment(t.Context(), o)) {
		if c.Status != OK || !strings.Contains(c.Detail, "batch = single") {
			t.Errorf("%+v", c)
		}
	}
	o.Classifier = write("token-classifier", "O", "B-PER", "I-PER")
	if c := classifier(t.Context(), o)[0]; c.Status != OK || !strings.Contains(c.Detail, "3 labels") {
		t.Errorf("%+v", c)
	}
	if err := os.Truncate(filepath.Join(o.Reranker, "model.safetensors"), 1000); err != nil {
		t.Fatal(err)
	}
	if c := reranker(t.Context(), o)[0]; c.Status != Failed || c.Hint == "" {
		t.Errorf("%+v", c)
	}
	o.Entailment = write("entailment", "no", "yes")
	if c := entailment(t.Context(), o)[0]; c.Status != Failed || !strings.Contains(c.Detail, `is "entailment"`) {
		t.Errorf("%+v", c)
	}
	none := Options{}
	if list := slices.Concat(classifier(t.Context(), none), reranker(t.Context(), none),
		entailment(t.Context(), none)); len(list) != 0 {
		t.Errorf("none is named: %+v", list)
	}
}
