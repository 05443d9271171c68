//go:build native

package embed

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/internal/testmodels/checkpoint"
)

// headGolden are the values of one architecture's heads by testdata/reference.py, in float64.
type headGolden struct {
	Name     string    `json:"name"`
	Weights  string    `json:"weights"`  // digest of the checkpoint with three labels
	Score    []float64 `json:"score"`    // a logit of the first query with each document
	Classify []float64 `json:"classify"` // three logits of each text
	Tokens   []float64 `json:"tokens"`   // of each text, the projection of its tokens' logits (see project)
}

// TestGoldenHeads is TestRerankersAgainstNumPy and the like for machines without Python.
func TestGoldenHeads(t *testing.T) {
	race.Skip(t)
	needLibrary(t)
	path := filepath.Join("testdata", "golden-heads.json")
	var got, want []headGolden
	for _, s := range architectures() {
		got = append(got, headsOf(t, s, *update))
	}
	if *update {
		raw, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, append(raw, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
		t.Log("written; run again without -update")
		return
	}
	readGolden(t, path, &want)
	if len(got) != len(want) {
		t.Fatalf("%d architectures, %d golden ones: run with -update", len(got), len(want))
	}
	for i, g := range got {
		w := want[i]
		if g.Name != w.Name || g.Weights != w.Weights {
			t.Errorf("%s of weights %s, the golden file has %s of %s: run with -update", g.Name, g.Weights, w.Name,
				w.Weights)
			continue
		}
		a, b := slices.Concat(g.Score, g.Classify, g.Tokens), slices.Concat(w.Score, w.Classify, w.Tokens)
		d := math.Inf(1)
		if len(a) == len(b) && len(a) > 0 {
			d = 0
			for j := range a {
				d = max(d, math.Abs(a[j]-b[j]))
			}
		}
		t.Logf("%s: max |d| %.3g of %d values", g.Name, d, len(a))
		if !(d <= headTolerance) {
			t.Errorf("%s: max |d| %g, at most %g expected", g.Name, d, headTolerance)
		}
	}
}

// headsOf computes what is kept of an architecture, by us or by the reference.
func headsOf(t *testing.T, s checkpoint.Spec, byReference bool) headGolden {
	t.Helper()
	texts := smallTexts()
	query := "when is the gate open?"
	ranker, classifier, tokens := s, s, s
	ranker.Labels, ranker.Kind = []string{"LABEL_0"}, "reranker"
	classifier.Labels = []string{"a", "b", "c"}
	tokens.Labels, tokens.Kind = entityLabels, "token-classifier"
	dirs := []string{writeCheckpoint(t, ranker), writeCheckpoint(t, classifier), writeCheckpoint(t, tokens)}
	digest, err := hashFile(t.Context(), filepath.Join(dirs[1], "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	g := headGolden{Name: name(s), Weights: digest[len("sha256:"):][:16]}
	r, c, k := openReranker(t, dirs[0], Options{}), openClassifier(t, dirs[1]), openTokenClassifier(t, dirs[2])
	if byReference {
		in := task{Model: dirs[0], Task: "score"}
		for _, d := range texts {
			in.Pairs = append(in.Pairs, textPair{A: "ask: " + query, B: d, Limit: r.Info().MaxTokens})
		}
		g.Score, _ = referenceRows(t, in)
		g.Classify, _ = referenceRows(t, task{Model: dirs[1], Task: "classify", MaxTokens: c.Info().MaxTokens,
			Texts: texts})
		rows, ids := referenceRows(t, task{Model: dirs[2], Task: "label", MaxTokens: k.Info().MaxTokens, Texts: texts})
		for _, row := range ids {
			n := len(row) * len(entityLabels)
			g.Tokens, rows = append(g.Tokens, project(rows[:n])), rows[n:]
		}
		return g
	}
	scores, err := r.Score(t.Context(), query, texts)
	if err != nil {
		t.Fatal(err)
	}
	classes, err := c.Classify(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := k.infer(t.Context(), len(texts), k.texts(texts, Document))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range scores.Logits {
		g.Score = append(g.Score, float64(v))
	}
	for _, v := range classes.Logits {
		g.Classify = append(g.Classify, float64(v))
	}
	for i := range texts {
		n := len(entityLabels)
		g.Tokens = append(g.Tokens, project(rows.data[rows.starts[i]*n:rows.starts[i+1]*n]))
	}
	return g
}
