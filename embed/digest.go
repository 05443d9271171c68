package embed

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// arithmetic is raised when a change of the graph writer or of the text handling changes vectors.
const arithmetic = 1

// hashFile returns "sha256:…" of a file.
func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrModel, err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("%s: %w: %w", path, ErrModel, err)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// weightFiles are the files whose bytes are the model's weights: the given one and, of an ONNX export,
// the external data that exporters put beside it.
func weightFiles(path string) ([]string, error) {
	files := []string{path}
	for _, pattern := range []string{"*.onnx_data*", "*.onnx.data*", "*.weight*", "*.bin"} {
		if filepath.Ext(path) != ".onnx" {
			break
		}
		more, err := filepath.Glob(filepath.Join(escapeGlob(filepath.Dir(path)), pattern))
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %w", path, ErrModel, err)
		}
		files = append(files, more...)
	}
	slices.Sort(files[1:])
	return files, nil
}

func escapeGlob(dir string) string {
	var b []rune
	for _, r := range dir {
		switch r {
		case '*', '?', '[', '\\':
			b = append(b, '\\')
		}
		b = append(b, r)
	}
	return string(b)
}

// identity is Info.Digest: the weights, the tokenizer, and every setting that changes a vector.
func identity(weights []string, tokenizer, architecture, settings string) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "sluice encoder %d\n%s\n%s\ntokenizer %s\n", arithmetic, architecture, settings, tokenizer)
	for _, path := range weights {
		sum, err := hashFile(path)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "weights %s\n", sum)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}
