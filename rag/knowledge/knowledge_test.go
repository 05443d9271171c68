package knowledge_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/embed/identity"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/rag/store"
)

func TestMain(m *testing.M) {
	if seconds := os.Getenv(anotherProcess); seconds != "" {
		os.Exit(another(os.Args[1], seconds))
	}
	goleak.VerifyTestMain(m)
}

// world is a base over a store in a folder of the test.
type world struct {
	*doubles.Base
	t *testing.T
}

func newWorld(t *testing.T, rows, searches int) *world {
	t.Helper()
	return &world{doubles.NewBase(t, func(c *knowledge.Config) { c.IndexRows, c.IndexSearches = rows, searches }), t}
}

// add commits texts, each as a document of one chunk.
func (w *world) add(texts ...string) {
	w.t.Helper()
	e, err := w.Embed(w.t.Context(), texts, embed.Document)
	if err != nil {
		w.t.Fatal(err)
	}
	batch := store.Batch{Vectors: e.Data}
	for _, text := range texts {
		batch.Documents = append(batch.Documents, &corpus.Document{ID: text, Source: text, Digest: text})
		batch.Chunks = append(batch.Chunks, corpus.Chunk{ID: text, Document: text, Source: text, Text: text})
	}
	id := w.Encoder.Info().Encoder
	st, err := w.Writer(w.t.Context(), &id)
	if err != nil {
		w.t.Fatal(err)
	}
	_, err = st.Commit(w.t.Context(), batch)
	if err := w.Changed(err); err != nil {
		w.t.Fatal(err)
	}
}

var asked = []string{"harbour 3", "the year 1812", "what is a violin?"}

// find searches once; indexed reports whether an index was used.
func (w *world) find() (results [][]found, indexed bool) {
	w.t.Helper()
	snap, _, err := w.Searchable(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	defer snap.Release()
	e, err := w.Embed(w.t.Context(), asked, embed.Query)
	if err != nil {
		w.t.Fatal(err)
	}
	queries := engine.Vectors{Data: e.Data, Rows: 3, Dim: e.Dim}
	vectors, err := snap.Vectors(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	contexts := retrieve.Contexts{Vectors: vectors, IDs: snap.View.IDs}
	lists, err := retrieve.Search(w.t.Context(),
		retrieve.Source{Engine: w.Engine, Metric: snap.Metric(), Contexts: contexts},
		retrieve.Queries{Vectors: queries}, overlay.On(retrieve.DefaultOptions(),
			retrieve.Options{K: 10, Mode: retrieve.Dense}))
	if err != nil {
		w.t.Fatal(err)
	}
	return flat(lists), contexts.Vectors.Set != nil
}

// found is a context with its score, whatever its row.
type found struct {
	ID    string
	Score float64
}

func flat(lists []retrieve.List) [][]found {
	all := make([][]found, len(lists))
	for i, l := range lists {
		for _, r := range l.Results {
			all[i] = append(all[i], found{r.ID, r.Score})
		}
	}
	return all
}

// TestOftenSearchedBasesGetAnIndex: it comes by itself, changes no answer, and follows the store.
func TestOftenSearchedBasesGetAnIndex(t *testing.T) {
	w := newWorld(t, 40, 3)
	var texts []string
	for i := range 50 {
		texts = append(texts, fmt.Sprintf("chapter %d tells of ships, harbour %d and the year %d", i, i%7, 1800+3*i))
	}
	w.add(texts...)
	want, _ := w.find()
	w.find()
	if _, indexed := w.find(); indexed {
		t.Error("the third search starts the index and does not wait for it")
	}
	for ; ; time.Sleep(20 * time.Millisecond) { // for as long as the test may take: the machine may be busy
		got, indexed := w.find()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("indexed %v: %s", indexed, diff)
		}
		if indexed {
			break
		}
	}
	w.add("harbour 3, harbour 3, harbour 3")
	if got, indexed := w.find(); !indexed || cmp.Equal(want, got) {
		t.Error("what was added later is not found by the index")
	}
	if strings.Contains(w.Log.String(), "WARN") {
		t.Error(w.Log.String())
	}
}

// TestFewSearchesMakeNoIndex: a command that searches once or twice does not pay for one.
func TestFewSearchesMakeNoIndex(t *testing.T) {
	for name, c := range map[string]struct{ rows, searches int }{"few searches": {1, 100}, "few rows": {100, 1}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.rows, c.searches)
			w.add("ships", "harbours")
			for range 50 {
				if _, indexed := w.find(); indexed {
					t.Fatal("an index")
				}
			}
		})
	}
}

// TestCloseWhileAnIndexIsBuilt: the builder reads the store's memory, which Close gives back.
func TestCloseWhileAnIndexIsBuilt(t *testing.T) {
	for range 20 {
		w := newWorld(t, 1, 1)
		w.add("ships and harbours")
		w.find()
		if err := w.Close(); err != nil || strings.Contains(w.Log.String(), "WARN") {
			t.Fatal(err, w.Log.String())
		}
	}
}

// TestEncodersAreComparedByTheirDigests: a model that was only renamed gives the same vectors; another one does not.
func TestEncodersAreComparedByTheirDigests(t *testing.T) {
	w := newWorld(t, 100, 100)
	w.add("ships")
	st, err := w.Reader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	made := st.Encoder()
	renamed := made
	renamed.Name = "the same weights in another folder"
	if err := knowledge.SameEncoder(st, renamed); err != nil {
		t.Errorf("renamed: %v", err)
	}
	for name, change := range map[string]func(*identity.Encoder){
		"weights":   func(e *identity.Encoder) { e.Digest = "sha256:00" },
		"tokenizer": func(e *identity.Encoder) { e.TokenizerDigest = "sha256:00" },
		"dimension": func(e *identity.Encoder) { e.Dim++ },
	} {
		other := made
		change(&other)
		if err := knowledge.SameEncoder(st, other); !errors.Is(err, store.ErrEncoder) {
			t.Errorf("another %s: %v", name, err)
		}
	}
}
