// Package filehash computes the SHA-256 of files: model weights, downloads, scripts.
package filehash

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/sluice-rag/sluice/internal/regular"
)

// Sum returns the SHA-256 of a file in hexadecimal digits. It stops with ctx's error when ctx ends: large files
// take minutes. Errors of the file are *fs.PathError, wrapped with the path where they lack it.
func Sum(ctx context.Context, path string) (string, error) {
	f, err := regular.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	for {
		_, err := io.CopyN(h, f, 16<<20)
		if err == io.EOF {
			return hex.EncodeToString(h.Sum(nil)), nil
		}
		if err != nil {
			return "", fmt.Errorf("reading %s: %w", path, err)
		}
		if err := ctx.Err(); err != nil {
			return "", err
		}
	}
}
