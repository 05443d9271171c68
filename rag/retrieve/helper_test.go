package retrieve

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
)

func newEngine(t testing.TB) *engine.Engine {
	t.Helper()
	e, err := engine.New(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// two are vectors of two dimensions.
func two(rows ...float32) engine.Vectors {
	return engine.Vectors{Data: rows, Rows: len(rows) / 2, Dim: 2}
}

// texts is a lexicon that reads every text for every score: words are what stands between spaces.
type texts []string

func (x texts) lexicon(text string, s Scoring) (Words, error) {
	q := naive{rows: x, scoring: s}
	for w := range strings.FieldsSeq(text) {
		df := 0
		for _, row := range x {
			if slices.Contains(strings.Fields(row), w) {
				df++
			}
		}
		q.terms = append(q.terms, Term{w, df, math.Log(1 + (float64(len(x)-df)+.5)/(float64(df)+.5))})
	}
	return q, nil
}

type naive struct {
	rows    []string
	scoring Scoring
	terms   []Term
}

func (q naive) Score(row int) (score float64) {
	words, total, mass := strings.Fields(q.rows[row]), 0, 0.
	for _, r := range q.rows {
		total += len(strings.Fields(r))
	}
	for _, t := range q.terms {
		tf := 0.
		for _, w := range words {
			if w == t.Text {
				tf++
			}
		}
		mass += t.IDF
		length := float64(len(words)*len(q.rows)) / float64(total)
		switch {
		case tf == 0:
		case q.scoring.Kind == KindCover:
			score += t.IDF
		default:
			score += t.IDF * tf * (q.scoring.K1 + 1) / (tf + q.scoring.K1*(1-q.scoring.B+q.scoring.B*length))
		}
	}
	if q.scoring.Kind == KindCover && mass > 0 {
		score /= mass
	}
	return score
}

func (q naive) TopK(_ context.Context, k int, allowed func(row int) bool) ([]kernels.Hit, error) {
	var hits []kernels.Hit
	for row := range q.rows {
		if s := q.Score(row); s > 0 && (allowed == nil || allowed(row)) {
			hits = append(hits, kernels.Hit{Row: row, Score: s})
		}
	}
	sortHits(hits)
	return hits[:min(k, len(hits))], nil
}

func (q naive) Any(allowed func(row int) bool) bool {
	hits, _ := q.TopK(context.Background(), 1, allowed) // never fails
	return len(hits) > 0
}

func (q naive) Biases(weight float64, more ...Weighted) kernels.Biases {
	var list kernels.BiasList
	for row := range q.rows {
		v := weight * q.Score(row)
		for _, w := range more {
			v += w.Weight * w.Score(row)
		}
		if v > 0 {
			list = append(list, kernels.Bias{Row: row, Value: v})
		}
	}
	return readOnly{list}
}

// readOnly hides that biases are a list: indexes compute theirs.
type readOnly struct{ kernels.Biases }

func (q naive) Terms() []Term { return q.terms }

func (q naive) Has(t Term, row int) bool { return slices.Contains(strings.Fields(q.rows[row]), t.Text) }

func (q naive) Ideal() (sum float64) {
	for _, t := range q.terms {
		sum += t.IDF * (q.scoring.K1 + 1)
	}
	return sum
}
