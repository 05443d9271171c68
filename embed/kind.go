package embed

import (
	"path/filepath"

	"github.com/sluice-rag/sluice/internal/manifest"
)

// KindOf tells what a model's folder is for: what its model.yaml says, else what the architecture in its config.json
// was made for; "" where neither says. Errors wrap ErrModel.
func KindOf(dir string) (string, error) {
	if err := checkFolder(dir); err != nil {
		return "", err
	}
	if s, err := readModelYAML(dir, ""); err != nil {
		return "", err
	} else if s != nil && s.Kind != "" {
		return s.Kind, nil
	}
	var c struct {
		Architectures []string `json:"architectures"`
	}
	if _, err := readJSON(filepath.Join(dir, "config.json"), &c); err != nil {
		return "", err
	}
	return string(manifest.KindOf(c.Architectures)), nil
}
