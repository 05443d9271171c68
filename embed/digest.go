package embed

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/sluice-rag/sluice/embed/onnx"
	"github.com/sluice-rag/sluice/internal/filehash"
)

// arithmetic is raised when a change of the graph writer or of the text handling changes vectors.
const arithmetic = 1

// hashFile returns "sha256:…" of a file of the model.
func hashFile(ctx context.Context, path string) (string, error) {
	sum, err := filehash.Sum(ctx, path)
	if err != nil && ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrModel, err)
	}
	return "sha256:" + sum, nil
}

// files returns the files whose bytes are the model's weights.
func (s *source) files() ([]string, error) {
	if s.graph != nil {
		return []string{s.graph.Weights}, nil
	}
	more, err := onnx.ExternalFiles(s.export)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModel, err)
	}
	return append([]string{s.export}, more...), nil
}

// Digest returns the digest of an encoder: of its weights, the digest of its tokenizer, and every setting that changes
// a vector. more is the text of settings that are not in s.
func Digest(
	ctx context.Context, weights []string, tokenizer, architecture string, s *ModelSettings, more string,
) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "sluice encoder %d\n%s\n%s%s\ntokenizer %s\n", arithmetic, architecture, s.vectorSettings(), more,
		tokenizer)
	for _, path := range weights {
		sum, err := hashFile(ctx, path)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "weights %s\n", sum)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}
