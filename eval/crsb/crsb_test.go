package crsb_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/eval/crsb"
	"github.com/sluice-rag/sluice/eval/dataset"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/rag/ingest"
)

func open(t *testing.T, answers ...string) (*sluice.Sluice, string) {
	t.Helper()
	dir := t.TempDir()
	for topic, text := range map[string]string{"go": "A deferred function runs last in first out.",
		"sea": "The herring feeds on plankton of the northern sea."} {
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, "docs", topic), 0o755),
			os.WriteFile(filepath.Join(dir, "docs", topic, "a.txt"), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := sluice.Open(t.Context(), sluice.Config{Store: filepath.Join(dir, "store"), Embedder: doubles.NewEncoder(),
		Generator: doubles.NewModel(answers...)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, dir
}

// TestBuild: folders are topics, the file's questions are kept with their contexts, negative pairs are of another
// topic.
func TestBuild(t *testing.T) {
	s, dir := open(t, " function runs first, which deferred function?")
	o := crsb.Options{Paths: []string{filepath.Join(dir, "docs")}, Out: filepath.Join(dir, "out"),
		Ingest: ingest.Options{NoChunk: true}}
	r, err := crsb.Build(t.Context(), s, o)
	if err != nil || r.Contexts != 2 || r.Topics != 2 || r.Queries == 0 || r.Generated == nil {
		t.Fatalf("by the language model: %+v, %v", r, err)
	}
	set, err := dataset.Open(o.Out)
	if err != nil || set.Faults.Total() != 0 {
		t.Fatalf("%+v, %v", set, err)
	}
	var lines []string
	for _, c := range set.Contexts {
		lines = append(lines, `{"context_id":"`+c.ID+`","text":"What of it?"}`)
	}
	o.Queries = strings.NewReader(strings.Join(lines, "\n") + "\n{}\n" + `{"context_id":"moon","text":"Why?"}`)
	if r, err = crsb.Build(t.Context(), s, o); err != nil || r.Queries != 2 || r.BadLines != 1 || r.Unknown != 1 ||
		r.Positive != 2 || r.Negative != 2 {
		t.Fatalf("by a file: %+v, %v", r, err)
	}
	topic := map[string]string{}
	for _, c := range set.Contexts {
		topic[c.ID] = c.Topic
	}
	text, err := os.ReadFile(filepath.Join(o.Out, crsb.PairsFile))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var p crsb.Pair
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			t.Fatal(err)
		}
		own := strings.TrimSuffix(p.QueryID, "-q1")
		if p.Positive != (own == p.ContextID) || !p.Positive && topic[own] == topic[p.ContextID] {
			t.Errorf("%+v", p)
		}
	}
	o.Queries = strings.NewReader(`{"context_id":"moon","text":"Why?"}`)
	if _, err := crsb.Build(t.Context(), s, o); !errors.Is(err, dataset.ErrData) {
		t.Errorf("questions about others only: %v", err)
	}
}
