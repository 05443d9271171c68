package experiment

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDraws: each draw of a set that is not parted has other texts for training.
func TestDraws(t *testing.T) {
	dir := t.TempDir()
	var lines strings.Builder
	for i := range 200 {
		fmt.Fprintf(&lines, `{"id":"q%d","text":"question %d","subject":"s%d"}`+"\n", i, i, i%2)
	}
	if err := os.WriteFile(filepath.Join(dir, "questions.jsonl"), []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	first, err := examples(dir, Part{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	second, err := examples(dir, Part{}, 2)
	if err != nil {
		t.Fatal(err)
	}
	if len(first.train) != 120 || len(first.test) != 80 || first.train[0].ID == second.train[0].ID &&
		first.train[1].ID == second.train[1].ID {
		t.Errorf("%d and %d texts, %v and %v first", len(first.train), len(first.test), first.train[0],
			second.train[0])
	}
}
