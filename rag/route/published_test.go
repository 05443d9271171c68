package route

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/testmodels/datasets"
	"github.com/sluice-rag/sluice/rag/route/learn"
)

func newEngine(t testing.TB) *engine.Engine {
	t.Helper()
	e, err := engine.New(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// labelled are texts to train and to test on, with their vectors, or without.
type labelled struct {
	texts   []string
	labels  []string
	vectors engine.Vectors
}

func (l labelled) pick(rows []int) labelled {
	out := labelled{vectors: engine.Vectors{Dim: l.vectors.Dim}}
	for _, i := range rows {
		out.texts, out.labels = append(out.texts, l.texts[i]), append(out.labels, l.labels[i])
		if l.vectors.Rows > 0 {
			out.vectors.Data = append(out.vectors.Data, l.vectors.Row(i)...)
			out.vectors.Rows++
		}
	}
	return out
}

// scored trains a router on all of train, without measuring, and returns the accuracy on test, with what it says of
// the test's texts.
func scored(t testing.TB, s Settings, train, test labelled) (accuracy float64, all []outcome, seconds float64) {
	t.Helper()
	began := time.Now()
	in := &Examples{}
	for i, text := range train.texts {
		in.List = append(in.List, Example{Text: text, Labels: []string{train.labels[i]}})
	}
	x := &training{Input: Input{Examples: in, Settings: s, Engine: newEngine(t), Vectors: train.vectors}}
	if _, err := x.read(); err != nil {
		t.Fatal(err)
	}
	r := &Router{About: About{Settings: s, Labels: x.labels, Temperature: 1}}
	if err := x.fit(t.Context(), r, x.inside(func(int) bool { return true })); err != nil {
		t.Fatal(err)
	}
	seconds = time.Since(began).Seconds()
	all, err := r.outcomes(t.Context(), x.Engine, test.texts, test.vectors)
	if err != nil {
		t.Fatal(err)
	}
	right, inside := 0, 0
	for i := range all {
		all[i].outside = test.labels[i] == "oos"
		if all[i].outside {
			continue
		}
		inside++
		if x.labels[slices.Index(all[i].scores, slices.Max(all[i].scores))] == test.labels[i] {
			right++
		}
	}
	return float64(right) / float64(inside), all, seconds
}

// clinc returns the texts of CLINC150 by their domains; those of none are left out of the training.
func clinc(t testing.TB) (train, test labelled) {
	t.Helper()
	for _, l := range datasets.Lines(t, "clinc150/train.jsonl") {
		if l.Domain != "oos" {
			train.texts, train.labels = append(train.texts, l.Text), append(train.labels, l.Domain)
		}
	}
	for _, l := range datasets.Lines(t, "clinc150/test.jsonl") {
		test.texts, test.labels = append(test.texts, l.Text), append(test.labels, l.Domain)
	}
	return train, test
}

// scibench returns the problems of SciBench, and the rows that five seeds train on (testdata/golden.py of package learn
// tells how scikit-learn was run on them; numpy's default_rng(seed).choice draws 60 of each subject).
func scibench(t testing.TB) (all labelled, splits [][]int) {
	t.Helper()
	for _, l := range datasets.Lines(t, "scibench/questions.jsonl") {
		all.texts, all.labels = append(all.texts, l.Text), append(all.labels, l.Subject)
	}
	text, err := os.ReadFile("testdata/scibench_splits.json")
	if err == nil {
		err = json.Unmarshal(text, &splits)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all, splits
}

// meanOver returns the mean accuracy of the splits.
func meanOver(t testing.TB, s Settings, all labelled, splits [][]int) (mean float64) {
	t.Helper()
	for _, rows := range splits {
		in := map[int]bool{}
		for _, i := range rows {
			in[i] = true
		}
		var rest []int
		for i := range all.texts {
			if !in[i] {
				rest = append(rest, i)
			}
		}
		accuracy, _, _ := scored(t, s, all.pick(rows), all.pick(rest))
		mean += accuracy / float64(len(splits))
	}
	return mean
}

// scikit-learn 1.9.1 with its defaults, on TF-IDF weights: CLINC150, ten domains, and SciBench, three subjects.
func TestWordsReachScikitLearn(t *testing.T) {
	train, test := clinc(t)
	sci, splits := scibench(t)
	for _, c := range []struct {
		kind            learn.Kind
		clinc, scibench float64
	}{{learn.MultinomialNB, .9373, .7770}, {learn.LogisticRegression, .9507, .7785}, {learn.LinearSVC, .9633, .8030},
		{learn.GaussianNB, .7891, .7455}} {
		a, _, seconds := scored(t, Plain(c.kind, TFIDF), train, test)
		b := meanOver(t, Plain(c.kind, TFIDF), sci, splits)
		t.Logf("%s: CLINC150 %.4f (scikit-learn %.4f), SciBench %.4f (%.4f), %.2f s of training", c.kind, a, c.clinc, b,
			c.scibench, seconds)
		if d := a - c.clinc; d < -.005 || d > .005 {
			t.Errorf("%s: CLINC150 %.4f, scikit-learn has %.4f", c.kind, a, c.clinc)
		}
		if d := b - c.scibench; d < -.005 || d > .005 {
			t.Errorf("%s: SciBench %.4f, scikit-learn has %.4f", c.kind, b, c.scibench)
		}
	}
}
