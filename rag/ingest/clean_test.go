package ingest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/knowledge"
)

// TestSyncNoticesCleaning: files are read again when they are cleaned otherwise, and only then; the documents say how.
func TestSyncNoticesCleaning(t *testing.T) {
	b, folder := doubles.NewBase(t, nil), t.TempDir()
	text := "Contents\n1 Tides ........ 3\n2 Winds ....... 14\n3 Ports ....... 15\n\n• The tide comes in.\n"
	modifiedAt(t, write(t, folder, "a.txt", text), time.Now().Add(-time.Hour))
	for _, x := range []struct {
		clean, chunk, meta string
		read, taken        int
	}{
		{"", "Contents", "", 1, 0}, {"none", "Contents", "", 0, 0},
		{"contents", "• The tide comes in.", "contents", 1, 1},
		{"bullets,contents", "The tide comes in.", "contents,bullets", 1, 2}, {"contents, bullets", "", "", 0, 0},
		{"none", "Contents", "", 1, 0},
	} {
		told := 0
		r, err := ingest.Run(t.Context(), b.Base, ingest.Input{Paths: []string{folder}, Options: ingest.Options{
			Sync: true, Chunk: "64/0", Clean: x.clean,
			OnClean: func(_ string, what []corpus.Cleaned) { told += len(what) }}})
		if err != nil || r.Read != x.read || told != x.taken {
			t.Fatalf("%q: read %d, taken out %d, %v: %+v", x.clean, r.Read, told, err, r)
		}
		if x.read == 0 {
			continue
		}
		st, err := b.Reader(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		list, err := st.Documents(t.Context())
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		info, err := st.Document(t.Context(), list[0].ID)
		if cleaning, _ := info.Meta["cleaning"].(string); err != nil || cleaning != x.meta {
			t.Errorf("%q: %+v, %v", x.clean, info, err)
		}
		for c, err := range st.DocumentChunks(t.Context(), list[0].ID) {
			if err != nil || c.Text[:min(len(x.chunk), len(c.Text))] != x.chunk {
				t.Errorf("%q: %q, %v", x.clean, c.Text, err)
			}
		}
	}
	_, err := ingest.Run(t.Context(), b.Base, ingest.Input{Paths: []string{folder},
		Options: ingest.Options{Clean: "x"}})
	if !errors.Is(err, knowledge.ErrOption) || !errors.Is(err, corpus.ErrCleaner) {
		t.Error(err)
	}
}
