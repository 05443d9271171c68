package ingest_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/store"
)

// tree writes files, by path below the base's folder, and makes that the working directory.
func tree(t *testing.T, b *doubles.Base, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Join(b.Dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		b.File(t, name, text)
	}
	t.Chdir(b.Dir)
}

func run(t *testing.T, b *doubles.Base, o ingest.Options, paths ...string) (ingest.Result, error) {
	t.Helper()
	o.Chunk = "32/0"
	return ingest.Run(t.Context(), b.Base, ingest.Input{Paths: paths, Options: o})
}

func must(t *testing.T, b *doubles.Base, o ingest.Options, paths ...string) ingest.Result {
	t.Helper()
	r, err := run(t, b, o, paths...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// held returns the documents as "id = source".
func held(t *testing.T, b *doubles.Base) (list []string) {
	t.Helper()
	st, err := b.Reader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	docs, err := st.Documents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range docs {
		list = append(list, d.ID+" = "+d.Source)
	}
	return list
}

func expect(t *testing.T, b *doubles.Base, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, held(t, b)); diff != "" {
		t.Errorf("documents (-want +got):\n%s", diff)
	}
}

// Two folders with a file of the same name are two documents, in one command and in two.
func TestFilesOfTheSameName(t *testing.T) {
	b := doubles.NewBase(t, nil)
	tree(t, b, map[string]string{"p1/README.md": "About herrings.", "p2/README.md": "About lighthouses.",
		"q/p2/README.md": "About tides."})
	must(t, b, ingest.Options{}, "p1")
	must(t, b, ingest.Options{}, "p2", "q/p2")
	expect(t, b, "p1/README.md = p1/README.md", "p2/README.md = p2/README.md", "q-p2/README.md = q/p2/README.md")
}

// A file is one document, whichever way and in which order it is reached.
func TestOneFileIsOneDocument(t *testing.T) {
	for _, first := range []string{"my/sub", "my/sub/a.md", "link", "my", "alias.md", "."} {
		b := doubles.NewBase(t, nil)
		tree(t, b, map[string]string{"my/sub/a.md": "About herrings.", "my/b.md": "About tides."})
		for name, to := range map[string]string{"link": "my/sub", "alias.md": "my/sub/a.md"} {
			if err := os.Symlink(to, name); err != nil {
				t.Fatal(err)
			}
		}
		must(t, b, ingest.Options{}, first)
		ids := map[string]bool{}
		for _, d := range held(t, b) {
			id, _, _ := strings.Cut(d, " = ")
			ids[id] = true
		}
		for _, again := range []string{"my", "my/sub", filepath.Join(b.Dir, "my/sub/a.md"), "./link/", "alias.md",
			"."} {
			must(t, b, ingest.Options{}, again)
		}
		n := 0
		for _, d := range held(t, b) {
			id, _, _ := strings.Cut(d, " = ")
			n++
			delete(ids, id)
		}
		if n != 2 || len(ids) > 0 {
			t.Errorf("first %s: %v, renamed %v", first, held(t, b), ids)
		}
	}
}

// An id is not taken from another source without a word: neither from a file by a JSON line nor from one file of lines
// by another; the same lines elsewhere, and lines whose file has gone, are the same documents.
func TestIDsAreNotTaken(t *testing.T) {
	b := doubles.NewBase(t, nil)
	tree(t, b, map[string]string{"docs/README.md": "About herrings.",
		"evil.jsonl": `{"id":"docs/README.md","text":"Replaced."}` + "\n" + `{"id":"1","text":"A line."}`,
		"b.jsonl":    `{"id":"1","text":"Another line."}`, "copy.jsonl": `{"id":"1","text":"A line."}`})
	must(t, b, ingest.Options{}, "docs")
	r, err := run(t, b, ingest.Options{}, "evil.jsonl")
	if !errors.Is(err, store.ErrConflict) || r.Refused != 1 || r.Documents != 1 {
		t.Errorf("%+v %v", r, err)
	}
	r, err = run(t, b, ingest.Options{}, "b.jsonl")
	if !errors.Is(err, store.ErrConflict) || r.Refused != 1 || r.Documents != 0 {
		t.Errorf("%+v %v", r, err)
	}
	expect(t, b, "docs/README.md = docs/README.md", "1 = evil.jsonl:2")
	must(t, b, ingest.Options{Collection: "b"}, "b.jsonl")
	must(t, b, ingest.Options{}, "copy.jsonl")
	expect(t, b, "docs/README.md = docs/README.md", "1 = copy.jsonl:1", "b/1 = b.jsonl:1")
	if err := os.Remove("copy.jsonl"); err != nil {
		t.Fatal(err)
	}
	var took []string
	o := ingest.Options{OnTake: func(id, from string) { took = append(took, id+" from "+from) }}
	if r := must(t, b, o, "b.jsonl"); r.Taken != 1 {
		t.Errorf("%+v", r)
	}
	o.Replace = true
	if r := must(t, b, o, "evil.jsonl"); r.Taken != 2 {
		t.Errorf("%+v", r)
	}
	want := []string{"1 from copy.jsonl:1", "docs/README.md from docs/README.md", "1 from b.jsonl:1"}
	if diff := cmp.Diff(want, took); diff != "" {
		t.Error(diff)
	}
}

// A folder that has moved is not taken for another one: the store asks, and goes on with the ids once it knows.
func TestMovedFolders(t *testing.T) {
	b := doubles.NewBase(t, nil)
	tree(t, b, map[string]string{"old/docs/a.md": "About herrings.", "other/x.md": "About tides."})
	elsewhere := t.TempDir()
	if err := os.Rename("old", filepath.Join(elsewhere, "old")); err != nil {
		t.Fatal(err)
	}
	docs := filepath.Join(elsewhere, "old/docs")
	must(t, b, ingest.Options{}, docs)
	now := filepath.Join(b.Dir, "docs")
	if err := os.Rename(docs, now); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t, b, ingest.Options{}, "docs"); !errors.Is(err, store.ErrConflict) ||
		!strings.Contains(err.Error(), "sluice docs root docs ") {
		t.Fatal(err)
	}
	st, err := b.Writer(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	real, err := filepath.EvalSymlinks(now)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.MoveCollection(t.Context(), "docs", real); err != nil {
		t.Fatal(err)
	}
	if r := must(t, b, ingest.Options{}, "docs"); r.Known != 1 || r.Embedded != 0 {
		t.Errorf("%+v", r)
	}
	expect(t, b, "docs/a.md = docs/a.md")

	if err := os.Rename("docs", "manual"); err != nil { // by another name
		t.Fatal(err)
	}
	if _, err := run(t, b, ingest.Options{}, "manual"); !errors.Is(err, store.ErrConflict) ||
		!strings.Contains(err.Error(), "sluice docs root docs ") {
		t.Error(err)
	}
	must(t, b, ingest.Options{Collection: "manual"}, "manual")
	expect(t, b, "docs/a.md = docs/a.md", "manual/a.md = manual/a.md")
}
