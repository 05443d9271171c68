package ingest_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/knowledge"
)

// accessOf returns what the store says of the groups of each document.
func (f *folder) accessOf() map[string]string {
	f.t.Helper()
	st, err := f.Base.Base.Reader(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	list, err := st.Documents(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	got := map[string]string{}
	for _, d := range list {
		if v, ok := d.Meta["access"]; ok {
			got[d.ID] = fmt.Sprint(v)
		}
	}
	return got
}

// TestAccessOfFolders: the groups of the nearest folder or file count, documents that name some keep these, and an
// ingest or sync that says nothing lets nobody in.
func TestAccessOfFolders(t *testing.T) {
	f := newFolder(t, map[string]string{"a.md": "The herring lives in schools.", "pay/b.md": "Wages rise in autumn.",
		"pay/own.md": "---\naccess: board\n---\nThe lighthouse is sold.",
		"l.jsonl":    `{"id":"l","text":"A lamp turns."}`})
	put := func(sync bool, access []string, paths ...string) {
		t.Helper()
		o := ingest.DefaultOptions()
		o.NoChunk = true
		o.Sync, o.Access = sync, access
		if _, err := ingest.Run(t.Context(), f.Base.Base, ingest.Input{Paths: paths, Options: o}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, want map[string]string) {
		t.Helper()
		if diff := cmp.Diff(want, f.accessOf()); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	pay := f.path("pay")
	put(false, []string{"staff"}, f.dir)
	put(false, []string{"hr", "board"}, pay)
	all := map[string]string{"docs/a.md": "[staff]", "docs/pay/b.md": "[hr board]", "docs/pay/own.md": "[board]",
		"l": "[staff]"}
	want("two folders", all)
	f.write("a.md", "The herring lives in large schools.")
	f.write("pay/b.md", "Wages rise in spring.")
	f.write("pay/new.md", "Bonuses are paid.")
	put(true, nil, f.dir)
	all["docs/pay/new.md"] = "[hr board]"
	want("a sync without groups", all)
	put(false, nil, f.dir)
	want("an ingest without groups", all)
	put(true, []string{"*"}, pay)
	delete(all, "docs/pay/b.md")
	delete(all, "docs/pay/new.md")
	want("a sync that lets everybody in", all)
	put(true, []string{"crew"}, f.dir)
	want("the whole folder anew", map[string]string{"docs/a.md": "[crew]", "docs/pay/b.md": "[crew]",
		"docs/pay/new.md": "[crew]", "docs/pay/own.md": "[board]", "l": "[crew]"})
	for _, bad := range [][]string{{""}, {" hr"}, {"hr", "*"}} {
		o := ingest.DefaultOptions()
		o.NoChunk = true
		o.Access = bad
		_, err := ingest.Run(t.Context(), f.Base.Base, ingest.Input{Paths: []string{pay}, Options: o})
		if !errors.Is(err, knowledge.ErrOption) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestAccessOfUploads: what was handed in under a name keeps its groups when the name is handed in again.
func TestAccessOfUploads(t *testing.T) {
	f := newFolder(t, map[string]string{"x.md": "The herring lives in schools."})
	for i, access := range [][]string{{"staff"}, nil, {"*"}, nil} {
		f.write("x.md", fmt.Sprintf("The herring lives in %d schools.", i))
		o := ingest.DefaultOptions()
		o.NoChunk = true
		o.Access, o.Given = access, map[string]string{f.path("x.md"): "fish.md"}
		in := ingest.Input{Paths: []string{filepath.Join(f.dir, "x.md")}, Options: o}
		if _, err := ingest.Run(t.Context(), f.Base.Base, in); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{}
		if i < 2 {
			want["uploads/fish.md"] = "[staff]"
		}
		if got := f.accessOf(); len(got) != len(want) || len(got) > 0 && !cmp.Equal(got, want) {
			t.Errorf("ingest %d: %v", i, got)
		}
	}
}
