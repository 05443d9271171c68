package knowledge_test

import (
	"slices"
	"testing"
)

// TestCheckTellsWhatTheTextsBack: a year that stands elsewhere does not back a sentence; words that are there do.
func TestCheckTellsWhatTheTextsBack(t *testing.T) {
	w := newWorld(t, 1000, 1000)
	passages := []string{"The tower of Alden was begun in 1897.",
		"Twelve ships carried stone to the bridge of Alden, begun in 1911."}
	w.add(append(passages, "a castle", "ships at sea")...)
	snap, err := w.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Release()
	answer := "The tower of Alden was begun in 1911. Twelve ships carried stone over the bridge, begun in 1911 [2]."
	found, err := snap.Check(t.Context(), "When was the tower begun?", answer, passages, nil)
	if err != nil || len(found) != 2 {
		t.Fatalf("%+v, %v", found, err)
	}
	if found[0].Backed || !slices.Equal(found[0].Missing, []string{"1911"}) {
		t.Errorf("%+v is backed", found[0])
	}
	if !found[1].Backed || found[1].Places[0].Passage != 1 {
		t.Errorf("%+v is not backed by the second passage", found[1])
	}
}
