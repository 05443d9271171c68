package experiment

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// FuzzJournal checks that any file is refused with ErrJournal, or keeps its items when others are added.
func FuzzJournal(f *testing.F) {
	f.Add([]byte("{\"sluice_experiment\":1}\n{\"cell\":\"a\",\"id\":\"b\",\"item\":{\"scores\":{}}}\n{\"cell\":\"torn"))
	f.Add([]byte("{\"sluice_experiment\":1}\n{}\n"))
	f.Add([]byte("{\"sluice_exp"))
	path := filepath.Join(f.TempDir(), "journal")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := openJournal(path)
		if err != nil {
			if !errors.Is(err, ErrJournal) {
				t.Fatal(err)
			}
			return
		}
		known := len(j.done)
		if err := errors.Join(j.add("new cell", "id", Item{Answer: "x"}), j.close()); err != nil {
			t.Fatal(err)
		}
		again, err := openJournal(path)
		if err != nil {
			t.Fatal(err)
		}
		if again.done["new cell"]["id"].Answer != "x" || len(again.done) < known {
			t.Fatalf("%d cells, %d before", len(again.done), known)
		}
		if err := again.close(); err != nil {
			t.Fatal(err)
		}
	})
}
