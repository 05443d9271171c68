package embed

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/sluice-rag/sluice/internal/regular"
)

// The kinds of models in a folder, as model.yaml names them.
const (
	KindEncoder         = kindEncoder
	KindClassifier      = kindClassifier
	KindReranker        = kindReranker
	KindTokenClassifier = kindTokens
	KindReader          = kindReader
)

// KindOf tells what a model's folder is for: what its model.yaml says, else what the architecture in its config.json
// was made for; "" where neither says. Errors wrap ErrModel.
func KindOf(dir string) (string, error) {
	if err := checkFolder(dir); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "model.yaml")
	raw, err := regular.ReadFile(path, maxSettings)
	if err == nil {
		s, err := parseSettings(raw)
		if err != nil {
			return "", fmt.Errorf("%s: %w", path, err)
		}
		if s.Kind != "" {
			return s.Kind, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w: %w", ErrModel, err)
	}
	var c struct {
		Architectures []string `json:"architectures"`
	}
	if _, err := readJSON(filepath.Join(dir, "config.json"), &c); err != nil {
		return "", err
	}
	for _, a := range c.Architectures {
		switch {
		case strings.HasSuffix(a, "ForTokenClassification"):
			return kindTokens, nil
		case strings.HasSuffix(a, "ForQuestionAnswering"):
			return kindReader, nil
		case strings.HasSuffix(a, "ForSequenceClassification"):
			return kindClassifier, nil
		}
	}
	return "", nil
}
