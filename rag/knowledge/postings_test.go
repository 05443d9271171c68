package knowledge_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/postings"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/rag/store"
)

// words returns the ids of the texts that have a word, better first, and of how many rows the index is.
func (w *world) words(word string) (ids []string, rows int) {
	w.t.Helper()
	snap, err := w.Snapshot(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	defer snap.Release()
	x, err := snap.Postings(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	q, err := x.Query(word, postings.Scoring{Kind: postings.BM25})
	if err != nil {
		w.t.Fatal(err)
	}
	hits, err := q.TopK(w.t.Context(), 100, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, h := range hits {
		ids = append(ids, snap.View.IDs[h.Row])
	}
	return ids, x.Statistics(nil).Live
}

func (w *world) hasWords(word string, rows int, want ...string) {
	w.t.Helper()
	got, live := w.words(word)
	if strings.Join(got, "|") != strings.Join(want, "|") || live != rows {
		w.t.Errorf("%s: %q of %d rows, want %q of %d", word, got, live, want, rows)
	}
}

// TestPostingsFollowTheStore: rows come and go, in this process and another one, and the file of the index serves who
// opens the store later; one that is damaged is made again.
func TestPostingsFollowTheStore(t *testing.T) {
	w := newWorld(t, 1000, 1000)
	w.add("harbours and ships", "a castle")
	w.hasWords("harbour", 2, "harbours and ships")
	w.add("the harbour")
	w.hasWords("harbour", 3, "the harbour", "harbours and ships")
	other := w.again()
	other.add("ships at sea")
	w.hasWords("ship", 4, "harbours and ships", "ships at sea")
	w.remove("harbours and ships")
	w.hasWords("ship", 3, "ships at sea")
	other.hasWords("harbour", 3, "the harbour")

	if err := w.KeepIndex(t.Context()); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(w.Base.Base.Dir(), "index", "postings")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	w.add("castles")
	later := w.again()
	later.hasWords("castle", 4, "a castle", "castles")
	if strings.Contains(later.Log.String(), "not used") {
		t.Error(later.Log)
	}
	whole[len(whole)/2] ^= 1
	if err := os.WriteFile(file, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	damaged := w.again()
	damaged.hasWords("castle", 4, "a castle", "castles")
	if !strings.Contains(damaged.Log.String(), "another one is made") {
		t.Error(damaged.Log)
	}
}

// The title of a document, the name of its file and its metadata are words of each of its chunks.
func TestTitlesFileNamesAndMetadataAreWords(t *testing.T) {
	base := doubles.NewBase(t, nil)
	batch := store.Batch{}
	var texts []string
	for i, source := range []string{"reports/alderon_2021.md", "reports/bexley-2022.md", "c.md", "d.md"} {
		text := fmt.Sprintf("Revenue grew, see note %d.", i)
		batch.Documents = append(batch.Documents, &corpus.Document{ID: source, Source: source, Digest: source,
			Title: []string{"", "", "Corvane's report", ""}[i]})
		if source == "d.md" {
			batch.Documents[i].Meta = corpus.Meta{"company": "Dunmore", "year": json.Number("2024")}
		}
		batch.Chunks = append(batch.Chunks,
			corpus.Chunk{ID: fmt.Sprint(i), Document: source, Source: source, Text: text})
		texts = append(texts, text)
	}
	put(t, base, batch, texts)
	snap, _, err := base.Searchable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Release()
	lists, err := snap.Search(t.Context(), retrieve.Queries{Texts: []string{"Alderon 2021", "revenue Bexley 2022",
		"Corvane", "Dunmore's revenue in 2024"}},
		overlay.On(retrieve.DefaultOptions(), retrieve.Options{K: 1, Mode: retrieve.BM25}))
	if err != nil {
		t.Fatal(err)
	}
	for i, list := range lists {
		if len(list.Results) != 1 || list.Results[0].ID != fmt.Sprint(i) {
			t.Errorf("question %d: %v", i, list.Results)
		}
	}
}

// retitle commits the document of a text again, with a title and its chunk as it is.
func (w *world) retitle(text, title string) {
	w.t.Helper()
	st, err := w.Writer(w.t.Context(), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	known, err := st.Chunks(w.t.Context(), []string{text})
	if err != nil {
		w.t.Fatal(err)
	}
	document := &corpus.Document{ID: known[0].Document, Source: known[0].Source, Digest: title, Title: title}
	_, err = st.Commit(w.t.Context(),
		store.Batch{Known: known, Replace: true, Documents: []*corpus.Document{document}})
	if err := w.Changed(err); err != nil {
		w.t.Fatal(err)
	}
}

// TestTitlesAreIndexedAnew checks that another title of a document is found, and its old one no more, though no text
// has changed.
func TestTitlesAreIndexedAnew(t *testing.T) {
	w := newWorld(t, 1000, 1000)
	w.add("harbours and ships", "a castle")
	w.retitle("a castle", "Corvane's report")
	w.hasWords("Corvane", 2, "a castle")
	w.retitle("a castle", "Alderon's report")
	w.hasWords("Alderon", 2, "a castle")
	w.hasWords("Corvane", 2)
	w.hasWords("castle", 2, "a castle")
	w.hasWords("harbour", 2, "harbours and ships")
}

// TestIndexOfAnEarlierAnalysis checks that a stored index without titles, which an earlier version has made, is not
// used.
func TestIndexOfAnEarlierAnalysis(t *testing.T) {
	w := newWorld(t, 1000, 1000)
	w.add("harbours and ships", "a castle")
	w.retitle("a castle", "Corvane's report")
	w.hasWords("Corvane", 2, "a castle")
	if err := w.KeepIndex(t.Context()); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(w.Base.Base.Dir(), "index", "postings")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	same := w.again()
	same.hasWords("Corvane", 2, "a castle")
	if strings.Contains(same.Log.String(), "not used") {
		t.Error(same.Log)
	}
	body := b[:len(b)-4]
	binary.LittleEndian.PutUint32(b[8:], binary.LittleEndian.Uint32(b[8:])-1)
	binary.LittleEndian.PutUint32(b[len(body):], durable.Checksum(body))
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	earlier := w.again()
	earlier.hasWords("Corvane", 2, "a castle")
	if !strings.Contains(earlier.Log.String(), "another one is made") {
		t.Error(earlier.Log)
	}
}
