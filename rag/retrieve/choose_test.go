package retrieve

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/kernels"
)

func ids(list []Result) (ids []string) {
	for _, r := range list {
		ids = append(ids, r.ID)
	}
	return ids
}

// TestFusionsOfTheFirst: a context that is not among the first of a search counts 0 there, or nothing.
func TestFusionsOfTheFirst(t *testing.T) {
	src := Source{Engine: newEngine(t), Contexts: Contexts{
		Vectors: two(1, 0, .8, .6, .6, .8, 0, 1), IDs: []string{"a", "b", "c", "d"},
		Words: texts{"x", "y", "z z", "z"}.index(t)}}
	q := Queries{[]string{"z"}, two(1, 0)}
	for name, x := range map[string]struct {
		o    Options
		ids  []string
		want []float64
	}{
		// dense: a 1, b .8 → 1, 0; words: c before d → 1, 0
		"min-max-top-n": {overlay.On(DefaultOptions(),
			Options{Fusion: MinMaxTopN, TopN: 2, Weight: .25}), []string{"c", "a", "b", "d"},
			[]float64{.75, .25, 0, 0}},
		"rrf": {overlay.On(DefaultOptions(), Options{Fusion: RRF, TopN: 3}), []string{"c", "a", "b", "d"},
			[]float64{1./61 + 1./63, 1. / 61, 1. / 62, 1. / 62}},
	} {
		x.o.Mode, x.o.Explain = Hybrid, true
		got, err := Search(t.Context(), src, q, x.o)
		if err != nil {
			t.Fatal(err)
		}
		list := got[0].Results
		if diff := cmp.Diff(x.ids, ids(list)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		for i, want := range x.want {
			if math.Abs(list[i].Score-want) > 1e-12 {
				t.Errorf("%s: result %d has %v, want %v", name, i, list[i].Score, want)
			}
		}
		p := list[0].Parts
		if got[0].Taken.Fusion != x.o.Fusion || got[0].Taken.TopN != x.o.TopN || p.SparseRank != 1 || p.Sparse == nil ||
			p.Rule != name || len(p.Terms) != 1 || p.Terms[0].Text != "z" || p.Terms[0].DF != 2 ||
			(p.Weight == nil) != (x.o.Fusion == RRF) || (p.DenseRank == 3) != (x.o.Fusion == RRF) {
			t.Errorf("%s: %+v, %+v", name, got[0].Taken, p)
		}
	}
}

// TestParts: the parts that are explained make the score.
func TestParts(t *testing.T) {
	src := Source{Engine: newEngine(t), Contexts: Contexts{
		Vectors: two(1, 0, .8, .6, .6, .8, 0, 1), IDs: []string{"a", "b", "c", "d"},
		Words: texts{"x", "y", "z z", "z y x"}.index(t)}}
	for _, metric := range []string{"cosine", "ip", "l2"} {
		got, err := Search(t.Context(), src, Queries{[]string{"z y"}, two(1, .2)},
			overlay.On(DefaultOptions(), Options{Mode: Hybrid, Weight: .3, Metric: metric, Explain: true}))
		if err != nil {
			t.Fatal(err)
		}
		if len(got[0].Taken.Terms) != 2 || got[0].Taken.Metric != metric {
			t.Errorf("%+v", got[0].Taken)
		}
		for _, r := range got[0].Results {
			p := r.Parts
			if s := *p.Weight**p.DenseNormalised + (1-*p.Weight)**p.SparseNormalised; math.Abs(s-r.Score) > 1e-6 {
				t.Errorf("%s: %s has %v, its parts make %v", metric, r.ID, r.Score, s)
			}
		}
	}
	got, err := Search(t.Context(), src, Queries{[]string{"z y"}, two(1, .2)},
		overlay.On(DefaultOptions(), Options{Explain: true}))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range got[0].Results {
		p := r.Parts
		if s := *p.Weight**p.Dense + (1-*p.Weight)*(.75**p.Cover+.5**p.Share); math.Abs(s-r.Score) > 1e-6 {
			t.Errorf("auto: %s has %v, its parts make %v", r.ID, r.Score, s)
		}
	}
	if got, err = Search(t.Context(), src, Queries{[]string{"z y"}, two(1, .2)}, DefaultOptions()); err != nil ||
		got[0].Results[0].Parts != nil || got[0].Taken.Terms != nil {
		t.Errorf("parts that nobody asked for: %+v, %v", got[0], err)
	}
}

// TestRerank: the reranker sees the best candidates only, and its scores order them.
func TestRerank(t *testing.T) {
	src := Source{Engine: newEngine(t), Contexts: Contexts{Vectors: two(1, 0, .9, .1, .6, .8, 0, 1),
		IDs: []string{"a", "b", "c", "d"}}}
	var seen []string
	answer := []float64{.1, .9, .5}
	src.Rerank = func(_ context.Context, query string, ids []string) ([]float64, error) {
		seen = ids
		if query != "question" {
			t.Errorf("query %q", query)
		}
		return answer, nil
	}
	q := Queries{[]string{"question"}, two(1, 0)}
	for _, metric := range []string{"cosine", "l2"} {
		got, err := Search(t.Context(), src, q, overlay.On(DefaultOptions(),
			Options{K: 2, Mode: Dense, Rerank: 3, Explain: true, Metric: metric}))
		if err != nil {
			t.Fatal(err)
		}
		list := got[0]
		if !slices.Equal(seen, []string{"a", "b", "c"}) || !slices.Equal(ids(list.Results), []string{"b", "c"}) ||
			list.Results[0].Score != .9 || *list.Results[0].Parts.Reranker != .9 ||
			list.Results[0].Parts.Fused == nil ||
			list.Taken.Reranked != 3 || list.Taken.Ascending {
			t.Errorf("%v, %+v", seen, list)
		}
	}
	answer = answer[:1]
	if _, err := Search(t.Context(), src, q, overlay.On(DefaultOptions(),
		Options{Rerank: 3})); !errors.Is(err, kernels.ErrShape) {
		t.Errorf("a reranker that scores one of three: %v", err)
	}
	gone := errors.New("gone")
	src.Rerank = func(context.Context, string, []string) ([]float64, error) { return nil, gone }
	if _, err := Search(t.Context(), src, q, overlay.On(DefaultOptions(), Options{Rerank: 3})); !errors.Is(err, gone) {
		t.Error(err)
	}
}

// TestMMR: with much weight on difference, the copy of the best context comes after one that differs.
func TestMMR(t *testing.T) {
	src := Source{Engine: newEngine(t), Contexts: Contexts{
		Vectors: two(1, 0, 1, .01, .8, .6, 0, 1), IDs: []string{"best", "copy", "other", "far"}}}
	for lambda, want := range map[float64][]string{0: {"best", "copy", "other"}, 1: {"best", "copy", "other"},
		.4: {"best", "far", "other"}, .7: {"best", "copy", "other"}} {
		got, err := Search(t.Context(), src, Queries{Vectors: two(1, 0)},
			overlay.On(DefaultOptions(), Options{K: 3, Mode: Dense, MMR: lambda,
				Explain: true}))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, ids(got[0].Results)); diff != "" {
			t.Errorf("λ = %v: %s", lambda, diff)
		}
		last := got[0].Results[2]
		if lambda == .4 &&
			(math.Abs(*last.Parts.Similarity-.8) > 1e-6 || math.Abs(*last.Parts.Relevance-.8) > 1e-6 ||
				got[0].Taken.MMR != .4) {
			t.Errorf("%+v, %+v", last.Parts, got[0].Taken)
		}
	}
	// distances: the smaller one is the more relevant
	got, err := Search(t.Context(), src, Queries{Vectors: two(1, 0)},
		overlay.On(DefaultOptions(), Options{K: 2, Mode: Dense, MMR: .4, Metric: "l2"}))
	if err != nil || !slices.Equal(ids(got[0].Results), []string{"best", "far"}) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestMerge(t *testing.T) {
	lists := []List{{Results: []Result{{ID: "a", Score: .9}, {ID: "b", Score: .5}}},
		{Results: []Result{{ID: "c", Score: .9}, {ID: "b", Score: .7}}}}
	want := []Result{{ID: "a", Score: .9}, {ID: "c", Score: .9}, {ID: "b", Score: .7}}
	if diff := cmp.Diff(want, Merge(lists, 5)); diff != "" {
		t.Error(diff)
	}
	lists[0].Taken.Ascending = true
	if diff := cmp.Diff([]Result{{ID: "b", Score: .5}, {ID: "a", Score: .9}}, Merge(lists, 2)); diff != "" {
		t.Error("distances:", diff)
	}
	if got := Merge(nil, 3); got == nil || len(got) != 0 {
		t.Error("an empty list must be [] in JSON")
	}
}
