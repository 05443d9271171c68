package embed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"

	"github.com/sluice-rag/sluice/embed/onnx"
	"github.com/sluice-rag/sluice/internal/regular"
)

// ModelSettings is what a model's folder says about texts: its model.yaml, or what sentence-transformers left there.
type ModelSettings struct {
	Name                        string
	Pooling                     string // of an encoder: mean or cls; of a GGUF file also last, or ""
	Normalise                   bool
	MaxTokens                   int // 0: not said
	QueryPrefix, DocumentPrefix string
	Licence                     string
	Languages                   []string
}

// ReadSettings reads them from the folder of an encoder or classifier. Errors wrap ErrModel.
func ReadSettings(dir string) (ModelSettings, error) {
	s, err := readSettings(dir, kindEncoder)
	if err != nil {
		other, otherErr := readSettings(dir, kindClassifier)
		if otherErr != nil {
			return ModelSettings{}, err
		}
		s = other
	}
	return s.exported(), nil
}

// ReadGGUFSettings reads the model.yaml in the folder of an encoder's GGUF file: what it says goes before what the file
// says. Without one all is as the file says, and vectors are normalised. Errors wrap ErrModel.
func ReadGGUFSettings(dir string) (ModelSettings, error) {
	path := filepath.Join(dir, "model.yaml")
	raw, err := regular.ReadFile(path, maxSettings)
	if errors.Is(err, fs.ErrNotExist) {
		return ModelSettings{Normalise: true}, nil
	} else if err != nil {
		return ModelSettings{}, fmt.Errorf("%w: %w", ErrModel, err)
	}
	s, err := parseSettings(raw)
	if err == nil && s.Kind != "" && s.Kind != kindEncoder {
		err = fmt.Errorf("%w: kind is %q, %q expected", ErrModel, s.Kind, kindEncoder)
	}
	if err != nil {
		return ModelSettings{}, fmt.Errorf("%s: %w", path, err)
	}
	return s.exported(), nil
}

// exported returns the settings for other packages.
func (s *settings) exported() ModelSettings {
	return ModelSettings{Name: s.Name, Pooling: string(s.Pooling), Normalise: s.Normalise, MaxTokens: s.MaxTokens,
		QueryPrefix: s.QueryPrefix, DocumentPrefix: s.DocumentPrefix, Licence: s.Licence, Languages: s.Languages}
}

// Repair replaces each NUL and each byte that is not UTF-8 by U+FFFD, and reports whether there was one.
func Repair(text string) (string, bool) { return repair(text) }

// Digest returns the digest of an encoder: its weights, the digest of its tokenizer, and every setting that changes a
// vector.
func Digest(ctx context.Context, weights []string, tokenizer, architecture string, s ModelSettings) (string, error) {
	return vectorDigest(ctx, weights, tokenizer, architecture, (&settings{Pooling: onnx.Pooling(s.Pooling),
		Normalise: s.Normalise, MaxTokens: s.MaxTokens, QueryPrefix: s.QueryPrefix,
		DocumentPrefix: s.DocumentPrefix}).vectorSettings())
}

// Normalise gives a vector length 1; a vector of zeros stays.
func Normalise(v []float32) {
	var sum float64
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	norm := max(math.Sqrt(sum), 1e-12)
	for j, x := range v {
		v[j] = float32(float64(x) / norm)
	}
}
