package store

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/internal/test/race"
)

// Inspect names all damage at once, each with what mends it, and nothing in a store that is in order.
func TestInspect(t *testing.T) {
	race.Skip(t)
	s := mustOpen(t, fastDir(t), testSeams())
	mustCommit(t, s, batchOf(1, testDim, append(ids("a", 900), ids("b", 600)...)...))
	mustCommit(t, s, batchOf(1, testDim, ids("c", 10)...))
	if _, err := s.DeleteDocuments(t.Context(), []string{"c"}); err != nil {
		t.Fatal(err)
	}
	v, err := s.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if err := v.SaveRows(t.Context()); err != nil {
		t.Fatal(err)
	}
	inspect := func() (found []string, done Inspected) {
		t.Helper()
		done, err := s.Inspect(t.Context(), func(f Finding) {
			if f.Problem == "" || f.Mend == "" || f.Where == "" {
				t.Errorf("%+v", f)
			}
			what := f.What
			if f.Harmless {
				what += ", harmless"
			}
			found = append(found, what)
		})
		if err != nil {
			t.Fatal(err)
		}
		return found, done
	}
	found, done := inspect()
	want := Inspected{Documents: 2, Chunks: 1500, Rows: 1510, Blocks: 6, Texts: 1500, Bytes: 1510 * testDim * 4}
	if len(found) > 0 || done != want {
		t.Fatalf("%v %+v", found, done)
	}
	patch(filepath.Join("segments", "000000.vec"), headerSize+5*testDim*4+1, 0x55, 0xaa)(t, s.Dir())
	patch(filepath.Join("segments", "000001.vec"), headerSize+5*testDim*4+1, 0x55, 0xaa)(t, s.Dir())
	for _, q := range []string{`UPDATE texts SET text = 'other' WHERE row IN (4, 700)`,
		`DELETE FROM deleted WHERE row = 1505`, `UPDATE documents SET partial = 1 WHERE id = 'b'`,
		`PRAGMA foreign_keys = OFF`, `INSERT INTO labels VALUES (99999, 'k', 'v')`} {
		if _, err := s.write.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	for name, b := range map[string][]byte{"segments/000007.vec": nil,
		"index/rows": []byte("slcrows\x01 and no more")} {
		if err := os.WriteFile(filepath.Join(s.Dir(), name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	found, _ = inspect()
	slices.Sort(found)
	if diff := cmp.Diff([]string{"database", "document, harmless", "index", "rows", "segment, harmless", "text", "text",
		"vectors", "vectors"}, found); diff != "" {
		t.Fatal(diff)
	}

	// A segment that is cut, and a list of rows that is whole but wrong.
	if err := os.Truncate(filepath.Join(s.Dir(), "segments", "000001.vec"), headerSize+100); err != nil {
		t.Fatal(err)
	}
	wrong := *v.rows
	wrong.ids = slices.Clone(wrong.ids)
	wrong.ids[3] = "another"
	other := *v
	other.rows = &wrong
	if err := other.SaveRows(t.Context()); err != nil {
		t.Fatal(err)
	}
	found, _ = inspect()
	for _, what := range []string{"segment", "index"} {
		if !slices.Contains(found, what) {
			t.Errorf("%s is not among %v", what, found)
		}
	}
}
