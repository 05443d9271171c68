//go:build native

package sluice_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/models"
)

// TestTheExampleRunsOutsideTheModule checks that the example's program builds and answers in a module of its own.
func TestTheExampleRunsOutsideTheModule(t *testing.T) {
	if _, err := models.Locate(sluice.DefaultEncoder); err != nil {
		t.Skipf("SKIP: the default encoder is not there: %v", err)
	}
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	read := func(name string) []byte {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	program := bytes.Replace(read("example_test.go"), []byte("package sluice_test"), []byte("package main"), 1)
	program = bytes.Replace(program, []byte("func Example()"), []byte("func main()"), 1)
	files := map[string][]byte{"main.go": program, "go.sum": read("go.sum"), "docs/store.md": read("docs/store.md"),
		"docs/gate.md": read("docs/gate.md"), "go.mod": fmt.Appendf(nil, "module example.org/mine\n\ngo 1.26.0\n\n"+
			"require github.com/sluice-rag/sluice v0.0.0\n\nreplace github.com/sluice-rag/sluice => %s\n", root)}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.CommandContext(t.Context(), "go", "run", "-mod=mod", "-ldflags=-w", "-tags=native", ".")
	c.Dir, c.Env = dir, append(os.Environ(), "GOWORK=off")
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &said)
	}
	for _, want := range []string{"2 documents, ", "the gate opens above ", "worth a search: true",
		"from docs/store.md"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("it does not print %q:\n%s%s", want, out, &said)
		}
	}
	t.Logf("%s", out)
}
