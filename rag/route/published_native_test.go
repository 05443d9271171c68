//go:build native

package route

import (
	"flag"
	"testing"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/testmodels/minilm"
	"github.com/sluice-rag/sluice/rag/route/learn"
)

var whole = flag.Bool("clinc150", false, "train on the vectors of CLINC150 as well (a minute)")

func openMiniLM(t testing.TB) *embed.Encoder { return minilm.Open(t, embed.Options{}) }

func embedded(t testing.TB, enc embed.Embedder, l labelled) labelled {
	t.Helper()
	e, err := enc.Embed(t.Context(), l.texts, embed.Query)
	if err != nil {
		t.Fatal(err)
	}
	l.vectors = engine.Vectors{Data: e.Data, Rows: len(l.texts), Dim: e.Dim}
	return l
}

// TestVectorsReachScikitLearn compares with scikit-learn 1.9.1 on the vectors of the default encoder, and shows the
// default router.
func TestVectorsReachScikitLearn(t *testing.T) {
	enc := openMiniLM(t)
	sci, splits := scibench(t)
	sci = embedded(t, enc, sci)
	for _, c := range []struct {
		name     string
		settings Settings
		low      float64
		high     float64
	}{{"vectors", Plain(learn.LinearSVC, Embedding), .7865 - .005, .7865 + .005},
		{"both", Plain(learn.LinearSVC, Both), .8265 - .005, .8265 + .005}, {"default", Defaults(), .825, 1}} {
		a := meanOver(t, c.settings, sci, splits)
		t.Logf("SciBench, %s: %.4f", c.name, a)
		if a < c.low || a > c.high {
			t.Errorf("SciBench, %s: %.4f, expected %.4f to %.4f", c.name, a, c.low, c.high)
		}
	}
	if !*whole {
		t.Log("CLINC150's vectors are left out; -clinc150 adds them")
		return
	}
	train, test := clinc(t)
	train, test = embedded(t, enc, train), embedded(t, enc, test)
	for _, c := range []struct {
		name     string
		settings Settings
		low      float64
		high     float64
	}{{"svc vectors", Plain(learn.LinearSVC, Embedding), .9600 - .005, .9600 + .005},
		{"svc both", Plain(learn.LinearSVC, Both), .9782 - .005, .9782 + .005},
		{"lr both", Plain(learn.LogisticRegression, Both), .9704 - .005, .9704 + .005},
		{"default", Defaults(), .977, 1}} {
		a, all, seconds := scored(t, c.settings, train, test)
		r := auroc(all)
		t.Logf("CLINC150, %s: %.4f, out of scope %.4f, %.2f s of training", c.name, a, r, seconds)
		if a < c.low || a > c.high {
			t.Errorf("CLINC150, %s: %.4f, expected %.4f to %.4f", c.name, a, c.low, c.high)
		}
		if c.name == "default" && r < .965 {
			t.Errorf("out of scope: AUROC %.4f, expected .965", r)
		}
	}
}
