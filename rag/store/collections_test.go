package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func mustFolder(t *testing.T, path ...string) string {
	t.Helper()
	dir := filepath.Join(path...)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// realTemp returns a folder of the test as a path without links.
func realTemp(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestCollectionsAreNamedAfterTheirFolders: a collection takes the name of its folder unless another collection has it,
// and keeps its name.
func TestCollectionsAreNamedAfterTheirFolders(t *testing.T) {
	ctx := context.Background()
	dir := realTemp(t)
	s := mustOpen(t, filepath.Join(dir, "store"), testSeams())
	add := func(name, root string, flat bool) string {
		t.Helper()
		c, err := s.AddCollection(ctx, name, root, flat)
		if err != nil {
			t.Fatal(err)
		}
		return c.Name
	}
	one, two := mustFolder(t, dir, "one/docs"), mustFolder(t, dir, "two/docs")
	three := mustFolder(t, dir, "x/two/docs")
	for _, c := range []struct {
		name, root string
		flat       bool
		want       string
	}{
		{"", one, true, "docs"}, {"", two, false, "two-docs"}, {"", three, false, "two-docs-2"},
		{"", one, true, "docs"},
		{"", one, false, "docs"}, {"mine", mustFolder(t, dir, "my"), false, "mine"}, {"", "/", true, "root"},
		{"", mustFolder(t, dir, "a *b"), false, "a__b"},
	} {
		if got := add(c.name, c.root, c.flat); got != c.want {
			t.Errorf("%s: %q, want %q", c.root, got, c.want)
		}
	}
	list, err := s.Collections(ctx)
	if err != nil || len(list) != 6 {
		t.Fatal(list, err)
	}
	if diff := cmp.Diff(Collection{Name: "docs", Root: one}, list[0],
		cmpopts.IgnoreUnexported(Collection{})); diff != "" {
		t.Errorf("a folder that was given as a whole: %s", diff)
	}
	for says, c := range map[string][2]string{
		`collection "docs" is ` + one: {"docs", dir}, `is collection "docs" already`: {"other", one},
		"no slashes": {"a/b", dir},
	} {
		if _, err := s.AddCollection(ctx, c[0], c[1], false); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v", c, err)
		}
	}
	if err := os.Rename(filepath.Join(dir, "one"), filepath.Join(dir, "new")); err != nil {
		t.Fatal(err)
	}
	moved := filepath.Join(dir, "new/docs")
	if _, err := s.AddCollection(ctx, "", moved, false); !errors.Is(err, ErrConflict) ||
		!strings.Contains(err.Error(), "sluice docs root docs "+moved) {
		t.Errorf("a folder that has gone: %v", err)
	}
	if err := s.MoveCollection(ctx, "docs", moved); err != nil {
		t.Fatal(err)
	}
	if got := add("", moved, false); got != "docs" {
		t.Errorf("moved: %q", got)
	}
	if err := s.MoveCollection(ctx, "nothing", dir); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	if err := s.MoveCollection(ctx, "mine", moved); !errors.Is(err, ErrConflict) {
		t.Error(err)
	}
}

// A project that is moved as a whole, with the store in it, goes on without a word; a store that is moved alone does.
func TestRootsMoveWithTheStore(t *testing.T) {
	ctx := context.Background()
	dir := realTemp(t)
	docs := mustFolder(t, dir, "project/docs")
	s := mustOpen(t, filepath.Join(dir, "project/store"), testSeams())
	if _, err := s.AddCollection(ctx, "", docs, false); err != nil {
		t.Fatal(err)
	}
	s.Close()
	root := func(store string) string {
		t.Helper()
		s := mustOpen(t, store, testSeams())
		defer s.Close()
		list, err := s.Collections(ctx)
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		return list[0].Root
	}
	if err := os.Rename(filepath.Join(dir, "project/store"),
		filepath.Join(mustFolder(t, dir, "away"), "store")); err != nil {
		t.Fatal(err)
	}
	if got := root(filepath.Join(dir, "away/store")); got != docs {
		t.Errorf("the store alone: %s", got)
	}
	for _, move := range [][2]string{{"away/store", "project/store"}, {"project", "renamed"}} {
		if err := os.Rename(filepath.Join(dir, move[0]), filepath.Join(dir, move[1])); err != nil {
			t.Fatal(err)
		}
	}
	if got := root(filepath.Join(dir, "renamed/store")); got != filepath.Join(dir, "renamed/docs") {
		t.Errorf("all of it: %s", got)
	}
}

// An id is not taken from its source, and a file does not get two.
func TestCommitKeepsIDsWithTheirSources(t *testing.T) {
	ctx := context.Background()
	dir := realTemp(t)
	s := mustOpen(t, filepath.Join(dir, "store"), testSeams())
	if _, err := s.AddCollection(ctx, "docs", mustFolder(t, dir, "docs"), false); err != nil {
		t.Fatal(err)
	}
	file := func(id, path string, line, version int) Batch {
		b := batchOf(version, testDim, id+"/0")
		b.Documents[0].Path, b.Documents[0].Line = filepath.Join(dir, path), line
		return b
	}
	mustCommit(t, s, file("a", "docs/a.md", 0, 1))
	for what, c := range map[string]struct {
		b    Batch
		want error
	}{
		"another file":     {file("a", "other/a.md", 0, 2), ErrConflict},
		"a line of a file": {file("a", "docs/a.md", 1, 2), ErrConflict},
		"another id":       {file("b", "docs/a.md", 0, 2), ErrConflict},
	} {
		if _, err := s.Commit(ctx, c.b); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	mustCommit(t, s, file("a", "docs/a.md", 0, 2))
	mustCommit(t, s, file("a", "other/a.md", 0, 2)) // it has moved
	b := file("a", "third/a.md", 0, 3)
	b.Take = []string{"a"}
	b.Partial = true
	mustCommit(t, s, b)
	list, err := s.Documents(ctx)
	if err != nil || len(list) != 1 || list[0].Path != filepath.Join(dir, "third/a.md") || !list[0].Partial ||
		list[0].Collection != "" {
		t.Errorf("%+v %v", list, err)
	}
	mustCommit(t, s, file("a", "docs/a.md", 0, 3))
	list, err = s.Documents(ctx)
	if err != nil || list[0].Path != filepath.Join(dir, "docs/a.md") || list[0].Partial ||
		list[0].Collection != "docs" {
		t.Errorf("%+v %v", list, err)
	}
}
