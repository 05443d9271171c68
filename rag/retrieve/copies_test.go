package retrieve

import (
	"crypto/sha256"
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
	c := Contexts{Vectors: two(values...), IDs: ids, Words: rows.lexicon}
	for _, text := range rows {
		c.Digests = append(c.Digests, sha256.Sum256([]byte(text)))
	}
	for _, mode := range []Mode{Auto, Dense, BM25, TFIDF, Hybrid} {
		o := DefaultOptions()
		o.K, o.Mode = 3, mode
		lists, err := Search(t.Context(), Source{Engine: newEngine(t), Contexts: c}, Queries{[]string{"pump valve"},
			two(1, 0)}, o)
		if err != nil {
			t.Fatal(mode, err)
		}
		got := lists[0].Results
		if len(got) != 3 || len(got[0].Copies) != 19 || got[0].ID != "d" || got[0].Copies[0] != "e" ||
			got[1].Copies != nil {
			t.Errorf("%s: %d results, the first is %v", mode, len(got), got[0])
		}
	}
}

// Without copies a search is what it is without their digests.
func TestSearchWithoutCopies(t *testing.T) {
	rows := texts{"pump one", "pump two", "valve"}
	c := Contexts{Vectors: two(1, 0, .8, .6, 0, 1), IDs: []string{"a", "b", "c"}, Words: rows.lexicon}
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
