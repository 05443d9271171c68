//go:build native

package sluice_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// TestAStoreKnowsWhereItsEncoderLies: a store that was made with a folder is used without naming it again, as long as
// the folder is there.
func TestAStoreKnowsWhereItsEncoderLies(t *testing.T) {
	encoder, err := models.Locate(sluice.DefaultEncoder)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	folder, store := filepath.Join(dir, "mine"), filepath.Join(dir, "store")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(encoder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if err := os.Symlink(file, filepath.Join(folder, filepath.Base(file))); err != nil {
			t.Fatal(err)
		}
	}
	settings := filepath.Join(folder, "model.yaml")
	text, err := os.ReadFile(settings)
	if err == nil {
		err = os.Remove(settings)
	}
	if err == nil {
		renamed := regexp.MustCompile(`(?m)^name:.*`).ReplaceAll(text, []byte("name: mine"))
		err = os.WriteFile(settings, renamed, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	with := func(encoder string, do func(*sluice.Sluice) error) error {
		s, err := sluice.Open(t.Context(), sluice.Config{Store: store, Encoder: encoder})
		if err != nil {
			t.Fatal(err)
		}
		return errors.Join(do(s), s.Close())
	}
	search := func(s *sluice.Sluice) error {
		_, err := s.Retrieve(t.Context(), []string{"calibration"}, retrieve.DefaultOptions())
		return err
	}
	if err := with(folder, func(s *sluice.Sluice) error {
		_, err := s.Ingest(t.Context(), []string{"README.md"}, ingest.Options{})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := with("", search); err != nil {
		t.Error(err)
	}
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if err := with("", search); !errors.Is(err, models.ErrUnknownModel) {
		t.Errorf("the folder is gone: %v", err)
	}
}
