package calibrate

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/rag/pseudo"
)

func TestSampleKeepsWholeContextsInOrder(t *testing.T) {
	var queries []pseudo.Query
	for _, id := range []string{"a", "a", "b", "c", "c", "d"} {
		queries = append(queries, pseudo.Query{ContextID: id, Text: id})
	}
	kept := sample(queries, 2, 7)
	if diff := cmp.Diff(kept, sample(queries, 2, 7)); diff != "" {
		t.Error("equal seeds differ:", diff)
	}
	count := map[string]int{}
	for i, q := range kept {
		count[q.ContextID]++
		if i > 0 && kept[i-1].ContextID > q.ContextID {
			t.Error("order changed")
		}
	}
	for id, n := range count {
		if whole := map[string]int{"a": 2, "b": 1, "c": 2, "d": 1}[id]; n != whole {
			t.Errorf("%d of %d queries of %s", n, whole, id)
		}
	}
	if len(count) != 2 || len(sample(queries, 9, 7)) != 6 {
		t.Errorf("%v", count)
	}
}
