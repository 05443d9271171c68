package retrieve

import (
	"context"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
)

func newEngine(t testing.TB) *engine.Engine {
	t.Helper()
	e, err := engine.New(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func two(rows ...float32) engine.Vectors {
	return engine.Vectors{Data: rows, Rows: len(rows) / 2, Dim: 2}
}

func TestSearch(t *testing.T) {
	c := Contexts{Vectors: two(1, 0, 0, 2, 3, 4, 1, 0), IDs: []string{"east", "north", "between", "east again"}}
	for _, x := range []struct {
		metric kernels.Metric
		k      int
		want   [][]Result
	}{
		{kernels.Cosine, 2, [][]Result{{{"east", 1}, {"east again", 1}}, {{"north", 1}, {"between", .8}}}},
		{kernels.IP, 3,
			[][]Result{{{"between", 6}, {"east", 2}, {"east again", 2}}, {{"between", 4}, {"north", 2}, {"east", 0}}}},
		{kernels.L2, 9, [][]Result{
			{{"east", 1}, {"east again", 1}, {"north", math.Sqrt(8)}, {"between", math.Sqrt(17)}},
			{{"north", 1}, {"east", math.Sqrt2}, {"east again", math.Sqrt2}, {"between", math.Sqrt(18)}},
		}},
	} {
		for _, mode := range []Mode{Dense, Auto} {
			got, err := Search(t.Context(), newEngine(t), c, two(2, 0, 0, 1), x.metric, mode, x.k)
			if err != nil || !reflect.DeepEqual(got, x.want) {
				t.Errorf("%s %s k=%d: %v, %v; want %v", x.metric, mode, x.k, got, err, x.want)
			}
		}
	}
}

func TestSearchEmpty(t *testing.T) {
	got, err := Search(t.Context(), newEngine(t), Contexts{Vectors: two()}, two(1, 0), kernels.Cosine, Dense, 3)
	if err != nil || len(got) != 1 || got[0] == nil || len(got[0]) != 0 {
		t.Errorf("an empty base: %#v, %v; want one empty list", got, err)
	}
	got, err = Search(t.Context(), newEngine(t), Contexts{Vectors: two(1, 0), IDs: []string{"a"}}, two(),
		kernels.Cosine, Dense, 3)
	if err != nil || len(got) != 0 {
		t.Errorf("no query: %v, %v", got, err)
	}
}

func TestSearchRefuses(t *testing.T) {
	c := Contexts{Vectors: two(1, 0, 0, 1), IDs: []string{"a", "b"}}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, x := range map[string]struct {
		ctx      context.Context
		contexts Contexts
		query    engine.Vectors
		mode     Mode
		k        int
		want     error
		says     string
	}{
		"bm25":    {t.Context(), c, two(1, 0), BM25, 1, ErrMode, "lexical"},
		"hybrid":  {t.Context(), c, two(1, 0), Hybrid, 1, ErrMode, "lexical"},
		"mode":    {t.Context(), c, two(1, 0), "sparse", 1, ErrMode, `"sparse"`},
		"no mode": {t.Context(), c, two(1, 0), "", 1, ErrMode, `""`},
		"k":       {t.Context(), c, two(1, 0), Dense, 0, ErrK, "given 0"},
		"ids": {t.Context(), Contexts{Vectors: c.Vectors, IDs: c.IDs[:1]}, two(1, 0), Dense, 1, kernels.ErrShape,
			"1 ids for 2"},
		"dimension": {t.Context(), c, engine.Vectors{Data: []float32{1, 2, 3}, Rows: 1, Dim: 3}, Dense, 1,
			kernels.ErrShape, ""},
		"not finite": {t.Context(), c, two(float32(math.NaN()), 0), Dense, 1, kernels.ErrNonFinite, ""},
		"cancelled":  {cancelled, c, two(1, 0), Dense, 1, context.Canceled, ""},
	} {
		got, err := Search(x.ctx, newEngine(t), x.contexts, x.query, kernels.Cosine, x.mode, x.k)
		if !errors.Is(err, x.want) || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: %v, %v; want %v", name, got, err, x.want)
		}
	}
}

func TestParseMode(t *testing.T) {
	for s, want := range map[string]error{"auto": nil, "dense": nil, "bm25": ErrMode, "hybrid": ErrMode,
		"Dense": ErrMode, "": ErrMode} {
		m, err := ParseMode(s)
		if !errors.Is(err, want) || want == nil && string(m) != s {
			t.Errorf("%q: %q, %v", s, m, err)
		}
	}
}

// TestSearchIsTheDefinition: every result is the one that sorting all canonical scores gives.
func TestSearchIsTheDefinition(t *testing.T) {
	e := newEngine(t)
	rapid.Check(t, func(t *rapid.T) {
		metric := rapid.SampledFrom([]kernels.Metric{kernels.Cosine, kernels.IP, kernels.L2}).Draw(t, "metric")
		dim := rapid.IntRange(1, 9).Draw(t, "dim")
		// Few values make many ties.
		draw := func(rows int, name string) engine.Vectors {
			data := rapid.SliceOfN(rapid.SampledFrom([]float32{-2, -.5, 0, .5, 1, 3}), rows*dim, rows*dim).Draw(t, name)
			return engine.Vectors{Data: data, Rows: rows, Dim: dim}
		}
		contexts, queries := draw(rapid.IntRange(1, 20).Draw(t, "contexts"), "c"),
			draw(rapid.IntRange(1, 4).Draw(t, "queries"), "q")
		k := rapid.IntRange(1, 25).Draw(t, "k")
		c := Contexts{Vectors: contexts}
		for i := range contexts.Rows {
			c.IDs = append(c.IDs, string(rune('a'+i)))
		}
		got, err := Search(context.Background(), e, c, queries, metric, Dense, k)
		if err != nil {
			t.Fatal(err)
		}
		for i := range queries.Rows {
			taken := map[int]bool{}
			var want []Result
			for len(want) < min(k, contexts.Rows) {
				best, bestScore := -1, 0.
				for j := range contexts.Rows {
					s := ref.Score(metric, queries.Data[i*dim:(i+1)*dim], contexts.Data[j*dim:(j+1)*dim])
					if !taken[j] && (best < 0 || metric.Better(s, bestScore)) {
						best, bestScore = j, s
					}
				}
				taken[best] = true
				want = append(want, Result{c.IDs[best], bestScore})
			}
			if !reflect.DeepEqual(got[i], want) {
				t.Fatalf("query %d: %v, want %v", i, got[i], want)
			}
		}
	})
}

func TestMerge(t *testing.T) {
	lists := [][]Result{{{ID: "a", Score: .9}, {ID: "b", Score: .5}}, {{ID: "c", Score: .9}, {ID: "b", Score: .7}}}
	want := []Result{{ID: "a", Score: .9}, {ID: "c", Score: .9}, {ID: "b", Score: .7}}
	if diff := cmp.Diff(want, Merge(lists, kernels.Cosine, 5)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Result{{ID: "b", Score: .5}, {ID: "a", Score: .9}}, Merge(lists, kernels.L2, 2)); diff != "" {
		t.Error("distances:", diff)
	}
	if got := Merge(nil, kernels.Cosine, 3); got == nil || len(got) != 0 {
		t.Error("an empty list must be [] in JSON")
	}
}
