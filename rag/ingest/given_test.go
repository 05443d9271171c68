package ingest_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/store"
)

// A file that was handed in is a document of its name, without a path; the same name again replaces it, and nothing
// of a file on this machine is replaced.
func TestFilesThatWereHandedIn(t *testing.T) {
	b := doubles.NewBase(t, nil)
	tree(t, b, map[string]string{"spool/0.md": "About herrings.", "spool/1.md": "# Tides\n\nAbout tides.",
		"spool/2.jsonl":  `{"id":"line","text":"About lamps."}`,
		"own/line.jsonl": `{"id":"mine","text":"About ropes."}`})
	at := func(name string) string { return filepath.Join(b.Dir, "spool", name) }
	give := func(names map[string]string) error {
		o := ingest.Options{Given: map[string]string{}, Chunk: "32/0"}
		var paths []string
		for file, name := range names {
			o.Given[at(file)], paths = name, append(paths, at(file))
		}
		_, err := ingest.Run(t.Context(), b.Base, ingest.Input{Paths: paths, Options: o})
		return err
	}
	all := map[string]string{"0.md": "../../etc/fish <&>.md", "1.md": "tides.md", "2.jsonl": "l.jsonl"}
	if err := give(all); err != nil {
		t.Fatal(err)
	}
	found := map[string]store.DocumentInfo{}
	for _, d := range documents(t, b) {
		found[d.ID] = d
		if d.Path != "" || d.Collection != "" {
			t.Errorf("%+v has a file", d)
		}
	}
	fish, line := found["uploads/../../etc/fish <&>.md"], found["line"]
	if fish.Title != "fish <&>" && fish.Title != "../../etc/fish <&>" || fish.Source != fish.ID ||
		found["uploads/tides.md"].Title != "Tides" || line.Source != "uploads/l.jsonl:1" || len(found) != 3 {
		t.Fatalf("%+v", found)
	}
	tree(t, b, map[string]string{"spool/0.md": "About whales."})
	if err := give(map[string]string{"0.md": "tides.md"}); err != nil {
		t.Fatal(err)
	}
	if docs := documents(t, b); len(docs) != 3 {
		t.Errorf("replaced: %+v", docs)
	}
	must(t, b, ingest.Options{}, "own")
	tree(t, b, map[string]string{"spool/2.jsonl": `{"id":"mine","text":"About knots."}`})
	if err := give(map[string]string{"2.jsonl": "l.jsonl"}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a document of a file was replaced: %v", err)
	}
}
