package retrieve

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
	"github.com/sluice-rag/sluice/rag/postings"
)

// scored is a result without its row and parts.
type scored struct {
	id    string
	score float64
}

func of(lists []List) [][]scored {
	all := make([][]scored, len(lists))
	for i, l := range lists {
		for _, r := range l.Results {
			all[i] = append(all[i], scored{r.ID, r.Score})
		}
	}
	return all
}

func TestDense(t *testing.T) {
	c := Contexts{Vectors: two(1, 0, 0, 2, 3, 4, 1, 0), IDs: []string{"east", "north", "between", "east again"}}
	for _, x := range []struct {
		metric kernels.Metric
		k      int
		want   [][]scored
	}{
		{kernels.Cosine, 2, [][]scored{{{"east", 1}, {"east again", 1}}, {{"north", 1}, {"between", .8}}}},
		{kernels.IP, 3,
			[][]scored{{{"between", 6}, {"east", 2}, {"east again", 2}}, {{"between", 4}, {"north", 2}, {"east", 0}}}},
		{kernels.L2, 9, [][]scored{
			{{"east", 1}, {"east again", 1}, {"north", math.Sqrt(8)}, {"between", math.Sqrt(17)}},
			{{"north", 1}, {"east", math.Sqrt2}, {"east again", math.Sqrt2}, {"between", math.Sqrt(18)}},
		}},
	} {
		src := Source{Engine: newEngine(t), Contexts: c, Metric: x.metric}
		for _, mode := range []Mode{Dense, Auto} {
			o := overlay.On(DefaultOptions(), Options{Mode: mode, K: x.k})
			got, err := Search(t.Context(), src, Queries{Vectors: two(2, 0, 0, 1)}, o)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(x.want, of(got), cmp.AllowUnexported(scored{})); diff != "" {
				t.Errorf("%s %s k=%d: %s", x.metric, o.Mode, x.k, diff)
			}
			if got[0].Taken.Ranking != "dense" || got[0].Taken.Metric != x.metric.String() ||
				got[0].Taken.Contexts != 4 ||
				got[0].Taken.Ascending != (x.metric == kernels.L2) {
				t.Errorf("taken: %+v", got[0].Taken)
			}
		}
		// the metric of the options comes before that of the contexts
		src.Metric = kernels.IP
		got, err := Search(t.Context(), src, Queries{Vectors: two(2, 0, 0, 1)},
			overlay.On(DefaultOptions(), Options{Mode: Dense, K: x.k, Metric: x.metric.String()}))
		if diff := cmp.Diff(x.want, of(got), cmp.AllowUnexported(scored{})); err != nil || diff != "" {
			t.Error(err, diff)
		}
	}
}

func TestEmpty(t *testing.T) {
	nothing := Source{Engine: newEngine(t), Contexts: Contexts{Vectors: two(), Words: texts{}.index(t)}}
	some := Source{Engine: newEngine(t), Contexts: Contexts{Vectors: two(1, 0), IDs: []string{"a"},
		Words: texts{"a"}.index(t)}}
	none := some
	none.Contexts.Selected = true
	for _, mode := range modes {
		for name, src := range map[string]Source{"an empty base": nothing, "a filter that selects nothing": none} {
			got, err := Search(t.Context(), src, Queries{[]string{"a"}, two(1, 0)},
				overlay.On(DefaultOptions(), Options{Mode: mode}))
			if err != nil || len(got) != 1 || got[0].Results == nil || len(got[0].Results) != 0 ||
				got[0].Taken.Reason == "" || got[0].Taken.Contexts != 0 {
				t.Errorf("%s, %s: %#v, %v; want one empty list", mode, name, got, err)
			}
		}
		got, err := Search(t.Context(), some, Queries{Vectors: two()},
			overlay.On(DefaultOptions(), Options{Mode: mode}))
		if err != nil || len(got) != 0 {
			t.Errorf("%s, no query: %v, %v", mode, got, err)
		}
	}
}

var modes = []Mode{Auto, Dense, BM25, TFIDF, Hybrid}

func TestRefuses(t *testing.T) {
	c := Contexts{Vectors: two(1, 0, 0, 1), IDs: []string{"a", "b"}}
	words := c
	words.Words = texts{"a", "b"}.index(t)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	one := Queries{[]string{"a"}, two(1, 0)}
	for name, x := range map[string]struct {
		ctx      context.Context
		contexts Contexts
		query    Queries
		o        Options
		want     error
		says     string
	}{
		"no words": {t.Context(), c, one, overlay.On(DefaultOptions(), Options{Mode: BM25}), ErrNoWords, "bm25"},
		"no texts": {t.Context(), words, Queries{Vectors: two(1, 0)},
			overlay.On(DefaultOptions(), Options{Mode: Hybrid}), kernels.ErrShape,
			"0 texts"},
		"no vectors": {t.Context(), words, Queries{Texts: []string{"a"}}, DefaultOptions(), kernels.ErrShape,
			"0 vectors for 1"},
		"mode": {t.Context(), c, one, overlay.On(DefaultOptions(), Options{Mode: "sparse"}), ErrOption,
			`mode: must be one of auto, dense, bm25, tfidf, hybrid, pseudo-query, given "sparse"`},
		"k": {t.Context(), c, one, overlay.On(DefaultOptions(),
			Options{K: -1}), ErrOption, "k: -1 is not between 1 and 1000000"},
		"fusion": {t.Context(), c, one, overlay.On(DefaultOptions(), Options{Fusion: "sum"}), ErrOption,
			`fusion: must be one of min-max, min-max-top-n, rrf, given "sum"`},
		"expansion": {t.Context(), c, one, overlay.On(DefaultOptions(), Options{Expand: "all"}), ErrOption,
			`expand: must be one of none, neighbours, parent, given "all"`},
		"metric": {t.Context(), c, one, overlay.On(DefaultOptions(),
			Options{Metric: "dot"}), ErrOption, `metric: must be one of store, cosine, ip, l2, given "dot"`},
		"weight": {t.Context(), c, one, overlay.On(DefaultOptions(),
			Options{Weight: 1.5}), ErrOption, "weight: 1.5 is not between 0 and 1"},
		"b": {t.Context(), c, one, overlay.On(DefaultOptions(),
			Options{B: math.NaN()}), ErrOption, "b: NaN is not between 0 and 1"},
		"mmr": {t.Context(), c, one, overlay.On(DefaultOptions(),
			Options{MMR: -.5}), ErrOption, "mmr: -0.5 is not between 0 and 1"},
		"rerank": {t.Context(), c, one, overlay.On(DefaultOptions(), Options{Rerank: 3}), ErrOption, "no reranker"},
		"field": {t.Context(), c, one, overlay.On(DefaultOptions(),
			Options{Where: Filter{{"colour", "=", "red"}}}), ErrFilter, "colour"},
		"ids": {t.Context(), Contexts{Vectors: c.Vectors, IDs: c.IDs[:1]}, one, DefaultOptions(), kernels.ErrShape,
			"1 ids for 2"},
		"dimension": {t.Context(), c, Queries{Vectors: engine.Vectors{Data: []float32{1, 2, 3}, Rows: 1, Dim: 3}},
			DefaultOptions(), kernels.ErrShape, ""},
		"not finite": {t.Context(), c, Queries{Vectors: two(float32(math.NaN()), 0)}, DefaultOptions(),
			kernels.ErrNonFinite, ""},
		"cancelled": {cancelled, c, one, DefaultOptions(), context.Canceled, ""},
	} {
		got, err := Search(x.ctx, Source{Engine: newEngine(t), Contexts: x.contexts}, x.query, x.o)
		if !errors.Is(err, x.want) || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: %v, %v; want %v", name, got, err, x.want)
		}
	}
}

// world is a random set of contexts with their texts; few values make many ties.
type world struct {
	Source
	rows  texts
	q     Queries
	allow []bool // by row
	eps   float64
}

func drawWorld(t *rapid.T, e *engine.Engine) *world {
	n, dim := rapid.IntRange(1, 20).Draw(t, "contexts"), rapid.IntRange(1, 9).Draw(t, "dim")
	vectors := func(rows int, name string) engine.Vectors {
		data := rapid.SliceOfN(rapid.SampledFrom([]float32{-2, -.5, 0, .5, 1, 3}), rows*dim, rows*dim).Draw(t, name)
		return engine.Vectors{Data: data, Rows: rows, Dim: dim}
	}
	text := func(name string, least int) string {
		words := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}), least, 6).Draw(t, name)
		return strings.Join(words, " ")
	}
	w := &world{eps: 1e-5, Source: Source{Engine: e,
		Metric: rapid.SampledFrom([]kernels.Metric{kernels.Cosine, kernels.IP, kernels.L2}).Draw(t, "metric")}}
	queries := rapid.IntRange(1, 4).Draw(t, "queries")
	w.Contexts.Vectors, w.q.Vectors = vectors(n, "c"), vectors(queries, "q")
	for i := range n {
		w.rows = append(w.rows, text("row", 1))
		w.Contexts.IDs = append(w.Contexts.IDs, string(rune('a'+i)))
	}
	for range queries {
		w.q.Texts = append(w.q.Texts, text("query", 0))
	}
	w.Contexts.Words = w.rows.index(t)
	w.Contexts.Selected = rapid.Bool().Draw(t, "selected")
	for row := range n {
		w.allow = append(w.allow, !w.Contexts.Selected || rapid.Bool().Draw(t, "allowed"))
		if w.Contexts.Selected && w.allow[row] {
			w.Contexts.Rows = append(w.Contexts.Rows, row)
		}
	}
	return w
}

// check compares a list with the ranking of all allowed contexts by a score: higher first, or lower for distances.
// Scores may differ by w.eps, the rounding of biases; what is nearly equal may stand in either order.
func (w *world) check(t *rapid.T, list List, k int, score func(row int) (x float64, in bool)) {
	eps := w.eps
	left := map[int]float64{}
	for row := range w.rows {
		if s, in := score(row); in && w.allow[row] {
			left[row] = s
		}
	}
	if want := min(k, len(left)); len(list.Results) != want {
		t.Fatalf("%d results, want %d: %+v", len(list.Results), want, list)
	}
	for i, r := range list.Results {
		s, there := left[r.Row]
		if !there || w.Contexts.IDs[r.Row] != r.ID || math.Abs(s-r.Score) > eps*(1+math.Abs(s)) {
			t.Fatalf("result %d: %+v, want a score of %v (%v)", i, r, s, there)
		}
		delete(left, r.Row)
		for row, other := range left {
			if list.Taken.Ascending {
				other = 2*s - other
			}
			if other > s+eps*(1+math.Abs(s)) {
				t.Fatalf("result %d is row %d with %v, row %d has %v", i, r.Row, s, row, left[row])
			}
		}
	}
}

// scores are a query's dense and sparse scores of the allowed rows.
func (w *world) scores(q int, metric kernels.Metric, kind postings.Kind) (dense, sparse []float64) {
	for row := range w.rows {
		dense = append(dense, ref.Score(metric, w.q.Vectors.Row(q), row1(w, row)))
		sparse = append(sparse, w.rows.score(kind, w.q.Texts[q], row))
	}
	return dense, sparse
}

func row1(w *world, r int) []float32 { return w.Contexts.Vectors.Row(r) }

// boundsOf are the bounds of the allowed rows' scores.
func (w *world) boundsOf(scores []float64, ascending bool) bounds {
	b := bounds{math.Inf(1), math.Inf(-1)}
	for row, s := range scores {
		if w.allow[row] {
			b = bounds{min(b.worst, s), max(b.best, s)}
		}
	}
	if ascending {
		b = bounds{b.best, b.worst}
	}
	return b
}

// TestRoundingIsNoDifference: words that all contexts have in common add up to the same score in another order, and the
// last bit of a sum must not decide.
func TestRoundingIsNoDifference(t *testing.T) {
	c := Contexts{Vectors: two(1, 1, 1, 1), IDs: []string{"a", "b"},
		Words: texts{"a a a c c d", "b b b c c d"}.index(t)}
	q := Queries{Vectors: two(1, 1), Texts: []string{"a c c b"}}
	o := overlay.On(DefaultOptions(), Options{Mode: Hybrid, Weight: .2})
	lists, err := Search(t.Context(), Source{Engine: newEngine(t), Contexts: c}, q, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range lists[0].Results {
		if math.Abs(r.Score-1) > 1e-6 {
			t.Errorf("%s has a score of %v, and both are the best", r.ID, r.Score)
		}
	}
}

// TestSearchIsTheDefinition: every ranking is the one that scoring all contexts gives, with and without a filter.
func TestSearchIsTheDefinition(t *testing.T) {
	e := newEngine(t)
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, e)
		o := overlay.On(DefaultOptions(),
			Options{K: rapid.IntRange(1, 25).Draw(t, "k"), Explain: rapid.Bool().Draw(t, "explain"),
				Mode:   rapid.SampledFrom(modes).Draw(t, "mode"),
				Weight: rapid.SampledFrom([]float64{-1, .2, .5, .9, 1}).Draw(t, "weight")})
		o.Weight = max(o.Weight, 0)
		lists, err := Search(context.Background(), w.Source, w.q, o)
		if err != nil {
			t.Fatal(err)
		}
		share := o.Weight
		for q, list := range lists {
			if w.Contexts.count() == 0 {
				if len(list.Results) > 0 {
					t.Fatal("contexts that no filter has left")
				}
				continue
			}
			metric := w.Metric
			if o.Mode == Auto && metric == kernels.L2 {
				metric = kernels.Cosine
			}
			dense, bm25 := w.scores(q, metric, postings.BM25)
			_, cover := w.scores(q, metric, postings.Cover)
			switch {
			case o.Mode == Dense:
				w.check(t, list, o.K, func(row int) (float64, bool) { return dense[row], true })
			case o.Mode == TFIDF:
				_, tfidf := w.scores(q, metric, postings.TFIDF)
				w.check(t, list, o.K, func(row int) (float64, bool) { return tfidf[row], tfidf[row] > 0 })
			case o.Mode == BM25:
				w.check(t, list, o.K, func(row int) (float64, bool) { return bm25[row], bm25[row] > 0 })
			case o.Mode == Hybrid || w.Metric == kernels.IP:
				db, sb := w.boundsOf(dense, metric == kernels.L2), w.boundsOf(bm25, false)
				if width := sb.width(); width > 0 { // biases are float32, and normalising magnifies their rounding
					w.eps = max(1e-5, 1e-6*sb.best/width)
				}
				w.check(t, list, o.K, func(row int) (float64, bool) {
					sparse := 0.
					if sb.best > 0 {
						sparse = sb.normalised(bm25[row])
					}
					return (1-share)*sparse + share*db.normalised(dense[row]), true
				})
			default:
				w.check(t, list, o.K, func(row int) (float64, bool) {
					s := .75 * cover[row]
					if ideal := w.rows.ideal(w.q.Texts[q]); ideal > 0 {
						s += .5 * bm25[row] / ideal
					}
					return share*dense[row] + (1-share)*s, share > 0 || s > 0
				})
			}
		}
	})
}

// TestAutoSaysWhatItTakes: words if the contexts contain some of the query, vectors if they contain none, hybrid for
// other metrics.
func TestAutoSaysWhatItTakes(t *testing.T) {
	c := Contexts{Vectors: two(1, 0, .9, .1, .6, .8), IDs: []string{"a", "b", "c"},
		Words: texts{"bees", "ships", "rocks and ships"}.index(t)}
	for name, x := range map[string]struct {
		query   string
		metric  kernels.Metric
		o       Options
		ranking string
		reason  string
		first   string
	}{
		"words":           {"rocks", kernels.Cosine, DefaultOptions(), autoRanking, "", "c"},
		"unknown words":   {"Felsen", kernels.Cosine, DefaultOptions(), "dense", noWords, "a"},
		"no words at all": {"", kernels.Cosine, DefaultOptions(), "dense", noWords, "a"},
		"l2 store":        {"rocks", kernels.L2, DefaultOptions(), autoRanking, "", "c"},
		"ip store":        {"rocks", kernels.IP, DefaultOptions(), "hybrid", "vectors are compared by ip", "a"},
		"l2 asked for": {"ships", kernels.Cosine, overlay.On(DefaultOptions(),
			Options{Metric: "l2"}), "hybrid", "vectors are compared by l2",
			"b"},
	} {
		got, err := Search(t.Context(), Source{Engine: newEngine(t), Contexts: c, Metric: x.metric},
			Queries{[]string{x.query}, two(1, 0)}, x.o)
		if err != nil {
			t.Fatal(err)
		}
		if taken := got[0].Taken; taken.Mode != Auto || taken.Ranking != x.ranking || taken.Reason != x.reason ||
			got[0].Results[0].ID != x.first {
			t.Errorf("%s: %+v, %+v", name, taken, got[0].Results)
		}
	}
}
