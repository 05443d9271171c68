package sluice_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// TestOftenSearchedBasesGetAnIndex: it comes by itself, changes no answer, and goes with the picture of the
// store that it was made of.
func TestOftenSearchedBasesGetAnIndex(t *testing.T) {
	w := newWorld(t, nil)
	w.IndexFrom(40, 3)
	for i := range 50 {
		w.ingest(t, fmt.Sprintf("%d.txt", i), fmt.Sprintf("chapter %d tells of ships, harbour %d and the year %d", i, i%7, 1800+3*i))
	}
	find := func() [][]retrieve.Result {
		t.Helper()
		r, err := w.Retrieve(t.Context(), []string{"harbour 3", "the year 1812", "what is a violin?"}, sluice.RetrieveOptions{K: 10})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	want := find()
	if find(); w.Indexed() {
		t.Error("an index after two searches")
	}
	find()
	for start := time.Now(); !w.Indexed(); time.Sleep(time.Millisecond) {
		if time.Since(start) > time.Minute {
			t.Fatal("no index")
		}
	}
	if diff := cmp.Diff(want, find()); diff != "" {
		t.Error("with an index:", diff)
	}
	w.ingest(t, "new.txt", "harbour 3, harbour 3, harbour 3")
	if got := find(); w.Indexed() || cmp.Equal(want, got) {
		t.Error("what was ingested later is not found")
	}
	if strings.Contains(w.log.String(), "WARN") {
		t.Error(w.log)
	}
}

// TestCloseWhileAnIndexIsBuilt: the builder reads the store's memory, which Close gives back.
func TestCloseWhileAnIndexIsBuilt(t *testing.T) {
	for range 20 {
		w := newWorld(t, nil)
		w.IndexFrom(1, 1)
		w.ingest(t, "a.txt", "ships and harbours")
		if _, err := w.Retrieve(t.Context(), []string{"ships"}, sluice.RetrieveOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil || strings.Contains(w.log.String(), "WARN") {
			t.Fatal(err, w.log)
		}
	}
}
