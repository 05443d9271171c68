// Package datasets reads the data sets that tests compare figures on. They are in ../shared/data, outside the
// repository; a test without its data set is skipped.
package datasets

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Line is a line of squad16, xquad-de, clinc150 or scibench: a context, or a question. Each has some of the fields.
type Line struct {
	ID         string   `json:"id"`
	ContextID  string   `json:"context_id"`
	Topic      string   `json:"topic"`
	Domain     string   `json:"domain"`
	Subject    string   `json:"subject"`
	Intent     string   `json:"intent"`
	Text       string   `json:"text"`
	Answerable bool     `json:"answerable"` // unless it is said, true
	Answers    []string `json:"answers"`
}

// Lines reads a file of a data set, such as "squad16/contexts.jsonl".
func Lines(t testing.TB, name string) (lines []Line) {
	t.Helper()
	for d := json.NewDecoder(Open(t, name)); ; {
		l := Line{Answerable: true}
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			return lines
		} else if err != nil {
			t.Fatalf("%s, line %d: %v", name, len(lines)+1, err)
		}
		lines = append(lines, l)
	}
}

// Open opens a file of a data set, and closes it when the test ends.
func Open(t testing.TB, name string) io.Reader {
	t.Helper()
	root, err := root()
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(filepath.Dir(root), "shared", "data", filepath.FromSlash(name)))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("SKIP: the data set is not there: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// Texts returns the texts of a file of a data set.
func Texts(t testing.TB, name string) (texts []string) {
	t.Helper()
	for _, l := range Lines(t, name) {
		texts = append(texts, l.Text)
	}
	return texts
}

// root returns the repository's folder: the nearest one from the working folder up with a go.mod.
func root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", errors.New("datasets: there is no go.mod above " + dir)
		}
	}
}
