// Package minilm opens the default encoder for tests.
package minilm

import (
	"errors"
	"testing"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/models"
)

// Open opens the default encoder, and closes it when the test ends. Without the encoder the test is skipped.
func Open(t testing.TB, o embed.Options) *embed.Encoder {
	t.Helper()
	dir, err := models.Locate("all-MiniLM-L6-v2")
	if err != nil {
		t.Skipf("SKIP: the default encoder is not there: %v", err)
	}
	enc, err := embed.Open(t.Context(), dir, o)
	if errors.Is(err, embed.ErrUnavailable) {
		t.Skipf("SKIP: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = enc.Close() })
	return enc
}
