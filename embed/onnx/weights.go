package onnx

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/sluice-rag/sluice/internal/regular"
	"github.com/sluice-rag/sluice/internal/safetensors"
)

// ErrModel is wrapped by every error of this package that is the fault of a model's files.
var ErrModel = errors.New("onnx: model files cannot be used")

// Tensor is one entry of a safetensors header.
type Tensor = safetensors.Tensor

// OpenWeights reads and checks the header of the safetensors file at path, whose tensors it returns by their names. The
// data are not read.
func OpenWeights(path string) (map[string]Tensor, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModel, err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModel, err)
	}
	t, err := safetensors.ReadHeader(f, st.Size())
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrModel, path, err)
	}
	return t, nil
}

// realFile returns the folder and name of the file that path leads to. ONNX Runtime (since 1.31) refuses
// external data reached through a link that leaves the folder, and model folders often are links into a cache.
func realFile(path string) (folder, name string, err error) {
	p, err := filepath.EvalSymlinks(path)
	if err == nil {
		p, err = filepath.Abs(p)
	}
	if err != nil {
		return "", "", fmt.Errorf("%w: %w", ErrModel, err)
	}
	return filepath.Dir(p), filepath.Base(p), nil
}
