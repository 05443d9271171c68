package models

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sluice-rag/sluice/internal/filehash"
	thirdparty "github.com/sluice-rag/sluice/third_party"
)

// Digest returns the SHA-256 of a generator's file, or of the first file of a split model. A file without a pin is read
// once for each of its states.
func (r *Registry) Digest(ctx context.Context, name string) (string, error) {
	m, _ := r.manifest.Model(name)
	for _, f := range m.Files {
		if f.SHA256 != "" && filepath.Ext(f.Path) == ".gguf" {
			return f.SHA256, nil // the code that opens the file compares the digests
		}
	}
	path, err := r.LocateGGUF(name)
	if err != nil {
		return "", err
	}
	if ref, ok, _ := parseReference(name); ok {
		if p, err := r.find(ctx, ref, false); err == nil && p.ours {
			rec, err := readRecord(p.record())
			if err != nil {
				return "", err
			}
			return rec.Files[0].SHA256, nil
		}
	}
	mark, err := r.mark("digests", path, "")
	if err != nil {
		return "", err
	}
	if sum, err := os.ReadFile(mark); err == nil && len(sum) == 64 {
		return string(sum), nil
	}
	sum, err := filehash.Sum(ctx, path)
	if err != nil {
		return "", err
	}
	if _, err := r.cache.Dir("digests"); err == nil {
		_ = writeAtomic(mark, []byte(sum)) // only saves the next reading; the folder may be read-only
	}
	return sum, nil
}

// KeptCard returns the text of the scorecard that SaveCard has kept for a digest, else nil.
func (r *Registry) KeptCard(digest string) ([]byte, error) {
	text, err := os.ReadFile(r.cardPath(digest))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

// Card returns the text of the manifest's scorecard for a model, else nil.
func (r *Registry) Card(name string) ([]byte, error) {
	m, ok := r.manifest.Model(name)
	if !ok || m.Scorecard == "" {
		return nil, nil
	}
	return thirdparty.Scorecard(m.Scorecard)
}

// SaveCard keeps the text of a model's scorecard.
func (r *Registry) SaveCard(digest string, text []byte) error {
	if _, err := r.cache.Dir("scorecards"); err != nil {
		return err
	}
	if err := writeAtomic(r.cardPath(digest), text); err != nil {
		return fmt.Errorf("models: the scorecard: %w", err)
	}
	return nil
}

// CardAnswers returns the file for the answers of a model that is being examined; there need not be one.
func (r *Registry) CardAnswers(digest string) (string, error) {
	_, err := r.cache.Dir("scorecards")
	return r.cache.Path("scorecards", digest+".answers.jsonl"), err
}

func (r *Registry) cardPath(digest string) string { return r.cache.Path("scorecards", digest+".json") }
