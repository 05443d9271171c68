//go:build native

package sluice_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/generator"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/ingest"
)

// TestModelHelper checks that a GGUF file given by its path is first opened by the helper, that it is not opened here
// if the helper fails, and that a success is remembered.
func TestModelHelper(t *testing.T) {
	t.Setenv("SLUICE_CACHE", t.TempDir())
	dir := t.TempDir()
	model, runs := filepath.Join(dir, "m.gguf"), filepath.Join(dir, "runs")
	p, _ := generator.Preset("llama-bpe")
	if err := generator.Write(model, p); err != nil {
		t.Fatal(err)
	}
	helper := func(ends string) []string {
		return []string{"sh", "-c", `cat > /dev/null; echo run >> "$1"; ` + ends, "helper", runs}
	}
	ask := func(helper []string) error {
		s, err := sluice.Open(t.Context(), sluice.Config{Store: filepath.Join(dir, "store"), Model: model,
			ModelHelper: helper, Embedder: doubles.NewEncoder()})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := s.Ingest(t.Context(), []string{"README.md"}, ingest.Options{NoChunk: true}); err != nil {
			t.Fatal(err)
		}
		_, err = s.Calibrate(t.Context(), calibrate.Options{Sample: 1, Questions: "written"})
		return err
	}
	var crash *llm.CrashError
	if err := ask(helper("echo assertion >&2; exit 2")); !errors.As(err, &crash) || crash.Says != "assertion" {
		t.Errorf("the helper ended badly, and the model was opened: %v", err)
	}
	for range 2 {
		if err := ask(helper(`echo '{"ok":true}'`)); errors.As(err, &crash) {
			t.Error(err)
		}
	}
	if text, err := os.ReadFile(runs); err != nil || string(text) != "run\nrun\n" {
		t.Errorf("the helper ran so often: %q, %v", text, err)
	}
}
