package knowledge_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/rag/store"
)

// chapters are texts in which numbers occur in different combinations.
func chapters(from, to int) (texts []string) {
	rng := rand.New(rand.NewPCG(uint64(from), 1))
	word := func() string { return string([]byte{'a' + byte(rng.IntN(26)), 'a' + byte(rng.IntN(26))}) }
	for i := from; i < to; i++ {
		texts = append(texts, fmt.Sprintf("chapter %d tells of ships, harbour %s and %s and the isle of %s", i, word(),
			word(), word()))
	}
	return texts
}

// again is another process's base over the same store.
func (w *world) again() *world {
	w.t.Helper()
	b := doubles.NewBase(w.t, func(c *knowledge.Config) {
		c.Dir, c.IndexRows, c.IndexSearches = filepath.Join(w.Dir, "store"), 40, 3
	})
	b.Dir = w.Dir
	return &world{b, w.t}
}

// naive returns the result of reading all live rows.
func (w *world) naive() [][]found {
	w.t.Helper()
	snap, _, err := w.Searchable(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	defer snap.Release()
	live, err := snap.View.Live(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	e, err := w.Embed(w.t.Context(), asked, embed.Query)
	if err != nil {
		w.t.Fatal(err)
	}
	queries := engine.Vectors{Data: e.Data, Rows: len(asked), Dim: e.Dim}
	found, err := retrieve.Search(w.t.Context(), retrieve.Source{Engine: w.Engine, Metric: snap.Metric(),
		Contexts: retrieve.Contexts{Vectors: live.Vectors, IDs: live.IDs}}, retrieve.Queries{Vectors: queries},
		overlay.On(retrieve.DefaultOptions(), retrieve.Options{K: 10, Mode: retrieve.Dense}))
	if err != nil {
		w.t.Fatal(err)
	}
	return flat(found)
}

// indexed searches until an index is used.
func (w *world) indexed(what string) {
	w.t.Helper()
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		got, indexed := w.find()
		if diff := cmp.Diff(w.naive(), got); diff != "" {
			w.t.Fatalf("%s, indexed %v: %s", what, indexed, diff)
		}
		if indexed && strings.Contains(w.Log.String(), "index") {
			return
		}
		if time.Since(start) > time.Minute {
			w.t.Fatalf("%s: no index", what)
		}
	}
}

func (w *world) remove(texts ...string) {
	w.t.Helper()
	st, err := w.Writer(w.t.Context(), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := st.DeleteDocuments(w.t.Context(), texts); err != nil {
		w.t.Fatal(err)
	}
}

// TestTheIndexIsStored: another process loads it at its first search; it follows 100 appends and 100 deletions, which
// this process and the other make, and none of them has it built again.
func TestTheIndexIsStored(t *testing.T) {
	race.Skip(t)
	w := newWorld(t, 40, 3)
	first := chapters(0, 600)
	w.add(first...)
	for range 3 {
		w.find()
	}
	w.indexed("built")
	if err := w.Close(); err != nil { // waits for what is stored
		t.Fatal(err)
	}
	if n := strings.Count(w.Log.String(), "index built"); n != 1 {
		t.Fatalf("built %d times: %s", n, w.Log)
	}
	w = w.again()
	if got, indexed := w.find(); !indexed || !cmp.Equal(got, w.naive()) {
		t.Fatalf("the first search goes by an index: %v\n%s", indexed, w.Log)
	}
	other := w.again()
	other.find()
	more := chapters(600, 700)
	for i, text := range more {
		by := []*world{w, other}[i%2]
		by.add(text)
		by.remove(first[6*i])
		for _, reader := range []*world{w, other} {
			got, indexed := reader.find()
			if !indexed {
				t.Fatalf("after %d changes there is no index", i)
			}
			if i%10 == 9 {
				if diff := cmp.Diff(reader.naive(), got); diff != "" {
					t.Fatalf("after %d changes: %s", i, diff)
				}
			}
		}
	}
	late := w.again()
	if got, indexed := late.find(); !indexed || !cmp.Equal(got, late.naive()) {
		t.Errorf("a later process: %v", indexed)
	}
	for _, by := range []*world{w, other, late} {
		if log := by.Log.String(); strings.Contains(log, "index built") || strings.Count(log, "index loaded") != 1 ||
			strings.Contains(log, "WARN") {
			t.Error(log)
		}
	}
}

// TestStoredIndexesAreNotTrusted: one that is damaged, cut, of other vectors or something else is noticed and replaced.
func TestStoredIndexesAreNotTrusted(t *testing.T) {
	race.Skip(t)
	w := newWorld(t, 40, 3)
	w.add(chapters(0, 300)...)
	for range 3 {
		w.find()
	}
	w.indexed("built")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(w.Dir, "store", store.IndexFolder, "vectors.set")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other := newWorld(t, 40, 3)
	other.add(chapters(1000, 1300)...)
	for range 3 {
		other.find()
	}
	other.indexed("another store's")
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	foreign, err := os.ReadFile(filepath.Join(other.Dir, "store", store.IndexFolder, "vectors.set"))
	if err != nil {
		t.Fatal(err)
	}
	flipped := slices.Clone(good)
	flipped[len(flipped)/2] ^= 4
	for name, b := range map[string][]byte{"a bit": flipped, "cut": good[:len(good)/2], "foreign": foreign,
		"text": []byte("not an index"), "nothing": {}} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		reader := w.again()
		reader.indexed(name)
		if err := reader.Close(); err != nil {
			t.Fatal(err)
		}
		if log := reader.Log.String(); !strings.Contains(log, "the stored index is not used") ||
			strings.Count(log, "index built") != 1 {
			t.Errorf("%s: %s", name, log)
		}
		if again, err := os.ReadFile(path); err != nil || !slices.Equal(again, good) {
			t.Errorf("%s: the file is not what it was, %d and %d bytes: %v", name, len(good), len(again), err)
		}
	}
}

// TestCompactAndKeepIndex: what has written much leaves an index in the store, which the next process loads; compaction
// makes it anew.
func TestCompactAndKeepIndex(t *testing.T) {
	race.Skip(t)
	w := newWorld(t, 40, 1000)
	w.add(chapters(0, 30)...)
	if err := w.KeepIndex(t.Context()); err != nil || strings.Contains(w.Log.String(), "index") {
		t.Errorf("a small store got an index: %v %s", err, w.Log)
	}
	texts := chapters(100, 400)
	w.add(texts...)
	path := filepath.Join(w.Dir, "store", store.IndexFolder, "vectors.set")
	size := func() int64 {
		t.Helper()
		if err := w.KeepIndex(t.Context()); err != nil {
			t.Fatal(err)
		}
		i, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return i.Size()
	}
	first := size()
	w.add(chapters(500, 503)...)
	if again := size(); again != first {
		t.Error("written again for three rows")
	}
	w.add(chapters(600, 620)...)
	if again := size(); again <= first {
		t.Error("not written again for 20 rows")
	}
	w.remove(texts[:250]...)
	n, err := w.Compact(t.Context(), store.CompactShare)
	if err != nil || n != 250 {
		t.Fatal(n, err)
	}
	if got, indexed := w.find(); !indexed || !cmp.Equal(got, w.naive()) {
		t.Errorf("after compaction: indexed %v", indexed)
	}
	if log := w.Log.String(); strings.Count(log, "index built") != 2 || strings.Contains(log, "WARN") {
		t.Error(log)
	}
	reader := w.again()
	if got, indexed := reader.find(); !indexed || !cmp.Equal(got, w.naive()) ||
		!strings.Contains(reader.Log.String(), "index loaded") {
		t.Errorf("another process: %v %s", indexed, reader.Log)
	}
}
