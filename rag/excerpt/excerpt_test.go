package excerpt_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/excerpt"
	"github.com/sluice-rag/sluice/rag/knowledge"
)

const (
	ship = "  The harbour is deep.\n\nLighthouses warn ships of rocks.  A lamp rotates above the rocks. "
	call = "A function returns. Deferred calls run in last in first out order!\n- panic unwinds the stack"
)

// newOptions embeds with the double for texts, and counts.
func newOptions(t *testing.T, calls *[][]string) excerpt.Options {
	t.Helper()
	e, err := engine.New(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	enc := doubles.NewEncoder()
	return excerpt.Options{Engine: e, Metric: kernels.Cosine, Embed: func(ctx context.Context, texts []string) (
		engine.Vectors, error) {
		*calls = append(*calls, texts)
		v, err := enc.Embed(ctx, texts, embed.Document)
		if err != nil {
			return engine.Vectors{}, err
		}
		return knowledge.Vectors(v), nil
	}}
}

func query(t *testing.T, texts ...string) engine.Vectors {
	t.Helper()
	v, err := doubles.NewEncoder().Embed(t.Context(), texts, embed.Query)
	if err != nil {
		t.Fatal(err)
	}
	return knowledge.Vectors(v)
}

func TestNearest(t *testing.T) {
	var calls [][]string
	o := newOptions(t, &calls)
	queries := []engine.Vectors{query(t, "which ships do lighthouses warn"), query(t, "in which order do calls run"),
		query(t, "lamp above", "stack panic")}
	got, err := excerpt.Nearest(t.Context(), o, queries, [][]string{{ship, call}, {call}, {"== * ==", ship, call}})
	if err != nil {
		t.Fatal(err)
	}
	if len(calls) != 1 || len(calls[0]) != 6 {
		t.Errorf("%d calls of the encoder, want one of the 6 sentences: %q", len(calls), calls)
	}
	want := [][]string{{"Lighthouses warn ships of rocks.", ""}, {"Deferred calls run in last in first out order!"},
		{"", "A lamp rotates above the rocks.", "- panic unwinds the stack"}}
	passages := [][]string{{ship, call}, {call}, {"== * ==", ship, call}}
	for i, list := range got {
		for j, s := range list {
			switch {
			case s == nil && want[i][j] != "" || s != nil && i == 2 && j == 0:
				t.Errorf("list %d, passage %d: %+v", i, j, s)
			case s == nil || want[i][j] == "":
				continue
			case s.Text != want[i][j] || passages[i][j][s.Start:s.End] != s.Text || s.Score <= 0:
				t.Errorf("list %d, passage %d: %+v, want %q", i, j, s, want[i][j])
			}
		}
	}
	// A query that is scored alone has the same scores as in a batch, and they equal the scores of a vector search.
	alone, err := excerpt.Nearest(t.Context(), o, queries[1:2], [][]string{{call}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got[1], alone[0]); diff != "" {
		t.Errorf("-together +alone:\n%s", diff)
	}
	hits, err := o.Engine.TopK(t.Context(), queries[1], query(t, alone[0][0].Text), kernels.Cosine, 1, nil)
	if err != nil || hits[0][0].Score != alone[0][0].Score {
		t.Errorf("%v, %v; the sentence has %v", hits, err, alone[0][0].Score)
	}
}

func TestNearestOfNothing(t *testing.T) {
	var calls [][]string
	o := newOptions(t, &calls)
	got, err := excerpt.Nearest(t.Context(), o, []engine.Vectors{query(t, "x")}, [][]string{{"", " \n", "***"}})
	if err != nil || len(got) != 1 || len(got[0]) != 3 || got[0][0] != nil || len(calls) != 0 {
		t.Errorf("%v, %v, %d calls of the encoder", got, err, len(calls))
	}
	if _, err := excerpt.Nearest(t.Context(), o, nil, [][]string{{"a"}}); !errors.Is(err, kernels.ErrShape) {
		t.Errorf("no query: %v", err)
	}
	lost := errors.New("lost")
	o.Embed = func(context.Context, []string) (engine.Vectors, error) { return engine.Vectors{}, lost }
	if _, err := excerpt.Nearest(t.Context(), o, []engine.Vectors{query(t, "x")}, [][]string{{"a"}}); !errors.Is(err,
		lost) {
		t.Errorf("an encoder's error became %v", err)
	}
	o.Embed = func(context.Context, []string) (engine.Vectors, error) { return query(t, "one"), nil }
	many := strings.Repeat("One sentence is here. ", 3)
	if _, err := excerpt.Nearest(t.Context(), o, []engine.Vectors{query(t, "x")}, [][]string{{many}}); !errors.Is(err,
		kernels.ErrShape) {
		t.Errorf("fewer vectors than sentences: %v", err)
	}
}
