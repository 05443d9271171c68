package retrieve

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// Copies of a text share the place of the best one, and the places that they leave go to other texts, however many
// copies there are.
func TestCopiesShareAPlace(t *testing.T) {
	rows, ids := texts{"pump one", "valve", "lamp"}, []string{"other", "valve", "lamp"}
	values := []float32{.8, .6, 0, 1, -1, 0}
	for range 20 {
		rows, ids = append(rows, "pump valve"), append(ids, string(rune('a'+len(ids))))
		values = append(values, 1, 0)
	}
	c := Contexts{Vectors: two(values...), IDs: ids, Words: rows.index(t)}
	digests := c // some are below other headings
	for i, text := range rows {
		c.Digests = append(c.Digests, sha256.Sum256([]byte(text)))
		digests.Digests = append(digests.Digests, sha256.Sum256([]byte(text+string(rune('a'+i/2)))))
	}
	bodies := digests
	bodies.Bodies = func(_ context.Context, of []string) (found []string, err error) {
		for _, id := range of {
			found = append(found, rows[slices.Index(ids, id)])
		}
		return found, nil
	}
	q := Queries{[]string{"pump valve"}, two(1, 0)}
	for _, mode := range []Mode{Auto, Dense, BM25, TFIDF, Hybrid} {
		o := DefaultOptions()
		o.K, o.Mode = 3, mode
		for name, c := range map[string]Contexts{"digests": c, "bodies": bodies} {
			lists, err := Search(t.Context(), Source{Engine: newEngine(t), Contexts: c}, q, o)
			if err != nil {
				t.Fatal(mode, err)
			}
			got := lists[0].Results
			if len(got) != 3 || got[0].ID != "d" || got[1].Copies != nil ||
				!slices.Equal(slices.Sorted(slices.Values(got[0].Copies)), ids[4:]) {
				t.Errorf("%s, %s: %d results, the first is %v", mode, name, len(got), got[0])
			}
		}
	}
	for len(ids) < 5+2*mostBodies { // more than are compared, and 20 of the same heading
		rows, ids = append(rows, "pump valve"), append(ids, fmt.Sprint("x", len(ids)))
		values = append(values, 1, 0)
		bodies.Digests = append(bodies.Digests, sha256.Sum256([]byte(ids[len(ids)-1])))
	}
	many := bodies
	many.Vectors, many.IDs, many.Words = two(values...), ids, rows.index(t)
	o := DefaultOptions()
	o.K = 3
	lists, err := Search(t.Context(), Source{Engine: newEngine(t), Contexts: many}, q, o)
	if err != nil || len(lists[0].Results) != 3 || len(lists[0].Results[0].Copies) > mostBodies+20 {
		t.Errorf("%d copies: %v, %v", len(ids), lists, err)
	}
	lost := errors.New("lost")
	bodies.Bodies = func(context.Context, []string) ([]string, error) { return nil, lost }
	_, err = Search(t.Context(), Source{Engine: newEngine(t), Contexts: bodies}, q, DefaultOptions())
	if !errors.Is(err, lost) {
		t.Errorf("%v, want %v", err, lost)
	}
}

// Without copies a search is what it is without their digests.
func TestSearchWithoutCopies(t *testing.T) {
	rows := texts{"pump one", "pump two", "valve"}
	c := Contexts{Vectors: two(1, 0, .8, .6, 0, 1), IDs: []string{"a", "b", "c"}, Words: rows.index(t)}
	var both [2][]List
	for i := range both {
		lists, err := Search(t.Context(), Source{Engine: newEngine(t), Contexts: c}, Queries{[]string{"pump"},
			two(1, 0)}, DefaultOptions())
		if err != nil {
			t.Fatal(err)
		}
		both[i] = lists
		for _, text := range rows {
			c.Digests = append(c.Digests, sha256.Sum256([]byte(text)))
		}
	}
	if diff := cmp.Diff(both[0], both[1], cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

// Queries that found different copies first have found one text.
func TestMergeCopies(t *testing.T) {
	lists := []List{{Results: []Result{{ID: "a", Score: .5, Copies: []string{"b"}}}},
		{Results: []Result{{ID: "b", Score: .7, Copies: []string{"a"}}, {ID: "c", Score: .6}}}}
	want := []Result{{ID: "b", Score: .7, Copies: []string{"a"}}, {ID: "c", Score: .6}}
	if diff := cmp.Diff(want, Merge(lists, 3)); diff != "" {
		t.Error(diff)
	}
}
