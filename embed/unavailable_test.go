//go:build !native

package embed

import (
	"context"
	"errors"
	"testing"
)

var (
	_ Embedder = (*Encoder)(nil)
	_ Scorer   = (*Reranker)(nil)
	_ Tagger   = (*TokenClassifier)(nil)
)

func TestFailsClosedWithoutLibraries(t *testing.T) {
	ctx := context.Background()
	e, err := Open(ctx, t.TempDir(), Options{})
	if e != nil || !errors.Is(err, ErrUnavailable) {
		t.Errorf("Open: %v, %v", e, err)
	}
	c, err := OpenClassifier(ctx, t.TempDir(), Options{})
	if c != nil || !errors.Is(err, ErrUnavailable) {
		t.Errorf("OpenClassifier: %v, %v", c, err)
	}
	r, err := OpenReranker(ctx, t.TempDir(), Options{})
	if r != nil || !errors.Is(err, ErrUnavailable) {
		t.Errorf("OpenReranker: %v, %v", r, err)
	}
	if _, err := r.Score(ctx, "x", nil); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Score: %v", err)
	}
	k, err := OpenTokenClassifier(ctx, t.TempDir(), Options{})
	if k != nil || !errors.Is(err, ErrUnavailable) {
		t.Errorf("OpenTokenClassifier: %v, %v", k, err)
	}
	if _, err := k.Spans(ctx, nil); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Spans: %v", err)
	}
	if _, err := e.Embed(ctx, []string{"x"}, Query); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Embed: %v", err)
	}
	if _, err := e.CountTokens("x"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("CountTokens: %v", err)
	}
	if _, err := c.Classify(ctx, []string{"x"}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Classify: %v", err)
	}
	if _, _, err := LibraryVersion(Options{}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("LibraryVersion: %v", err)
	}
	if Available || NativeDigest() != "" {
		t.Error("claims to be available")
	}
}
