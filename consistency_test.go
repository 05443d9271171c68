package sluice_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/rag/store"
)

const (
	herring     = "The herring lives in large schools and feeds on plankton of the northern sea."
	replacement = "The herring was replaced while the question was embedded."
)

// meanwhile changes the document "herring" after the encoder has embedded something, from the same process or, through
// a store of its own, as another process does.
func meanwhile(t *testing.T, w *world, enc *doubles.Encoder, another, replaces bool) {
	t.Helper()
	info := doubles.NewEncoder().Info().Encoder
	change := func(st *store.Store) {
		if !replaces {
			if _, err := st.DeleteDocuments(t.Context(), []string{"herring"}); err != nil {
				t.Error(err)
			}
			return
		}
		b := store.Batch{Replace: true, Vectors: make([]float32, info.Dim),
			Documents: []*corpus.Document{{ID: "herring", Source: "a.jsonl", Digest: "sha256:new"}},
			Chunks:    []corpus.Chunk{{ID: "herring", Document: "herring", Source: "a.jsonl", Text: replacement}}}
		b.Vectors[0] = 1
		if _, err := st.Commit(t.Context(), b); err != nil {
			t.Error(err)
		}
	}
	enc.After = func([]string) {
		enc.After = nil
		if another {
			st, err := store.Open(t.Context(), filepath.Join(w.dir, "store"), store.Options{Encoder: &info})
			if err != nil {
				t.Error(err)
				return
			}
			defer st.Close()
			change(st)
			return
		}
		if replaces {
			w.ingestWith(t, "b.jsonl", `{"id":"herring","text":"`+replacement+`"}`,
				ingest.Options{NoChunk: true, Replace: true})
		} else if _, err := w.Documents().Delete(t.Context(), []string{"herring"}); err != nil {
			t.Error(err)
		}
	}
}

// TestTextsBelongToTheirScores checks that a call returns the texts that were stored when it began, even if this
// process or another one deletes or replaces them between scoring and reading; the next call sees the change.
func TestTextsBelongToTheirScores(t *testing.T) {
	const question = "Which plankton of the northern sea does the herring feed on?"
	for name, c := range map[string]struct{ another, replaces bool }{
		"deleted":                     {},
		"replaced":                    {replaces: true},
		"deleted by another process":  {another: true},
		"replaced by another process": {another: true, replaces: true},
	} {
		t.Run(name, func(t *testing.T) {
			enc := doubles.NewEncoder()
			open := func() *world {
				w := newWorld(t, func(c *sluice.Config) { c.Embedder = enc })
				writer := newWorld(t, func(c *sluice.Config) { c.Store = filepath.Join(w.dir, "store") })
				writer.ingest(t, "a.jsonl", doubles.Contexts)
				if err := writer.Close(); err != nil {
					t.Fatal(err)
				}
				return w
			}
			w := open()
			meanwhile(t, w, enc, c.another, c.replaces)
			if _, err := w.Ask(t.Context(), question, overlay.On(answer.DefaultOptions(),
				answer.Options{Gate: answer.GateOpen})); err != nil {
				t.Fatal(err)
			}
			if sent := w.gen.Requests()[0].Messages; !strings.Contains(sent[len(sent)-1].Content, herring) ||
				strings.Contains(sent[len(sent)-1].Content, replacement) {
				t.Errorf("the model was shown %v", sent)
			}
			w = open()
			meanwhile(t, w, enc, c.another, c.replaces)
			found, err := w.Retrieve(t.Context(), []string{question}, overlay.On(retrieve.DefaultOptions(),
				retrieve.Options{K: 1}))
			if err != nil || len(found[0].Passages) != 1 || found[0].Passages[0].Chunk.Text != herring ||
				found[0].Passages[0].Score < .5 {
				t.Errorf("%+v %v", found, err)
			}
			found, err = w.Retrieve(t.Context(), []string{question}, overlay.On(retrieve.DefaultOptions(),
				retrieve.Options{K: 4}))
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range found[0].Passages {
				if p.Chunk.Text == herring {
					t.Errorf("a later call finds %+v", p)
				}
			}
		})
	}
}
