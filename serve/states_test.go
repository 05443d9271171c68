package serve

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/rag/ingest"
)

// TestChatOfUnreadyBases checks that each state of a knowledge base has a status, a code and a hint, and that a base
// without a calibration answers with a notice.
func TestChatOfUnreadyBases(t *testing.T) {
	w := newWorld(t, nil)
	open := func(store, encoder string) *sluice.Sluice {
		e := doubles.NewEncoder()
		e.Name = encoder
		s, err := sluice.Open(t.Context(), sluice.Config{Store: filepath.Join(w.dir, store), Embedder: e,
			Generator: w.model, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	library := []string{filepath.Join(w.dir, "a.jsonl")}
	fresh, emptied := open("fresh", "words"), open("emptied", "words")
	for _, s := range []*sluice.Sluice{fresh, emptied} {
		if _, err := s.Ingest(t.Context(), library, ingest.Options{NoChunk: true}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := emptied.Documents().Delete(t.Context(), []string{"defer", "close", "herring", "lights"}); err != nil {
		t.Fatal(err)
	}
	s, err := New(overlay.On(DefaultConfig(),
		Config{Logger: slog.New(slog.DiscardHandler), Bases: []Base{{"fresh", fresh}, {"emptied", emptied},
			{"none", open("none", "words")}, {"foreign", open("store", "other words")}}}))
	if err != nil {
		t.Fatal(err)
	}
	for _, stream := range []string{"false", "true"} {
		ask := func(store string) (int, string) {
			return do(t, s, post("/v1/chat/completions", `{"model":"sluice/`+store+`","stream":`+stream+
				`,"messages":[{"role":"user","content":"`+inScope+`"}]}`))
		}
		if status, body := ask("fresh"); status != 200 || !strings.Contains(body, "no gate yet") {
			t.Errorf("%d %s", status, body)
		}
		codes := map[string]string{"none": "no_store", "emptied": "empty_store", "foreign": "other_encoder"}
		for store, code := range codes {
			status, body := ask(store)
			if e := failure(t, body); status != 409 || e.Code != code || e.Hint == "" || strings.Contains(body, w.dir) {
				t.Errorf("%s: %d %s", store, status, body)
			}
		}
	}
}
