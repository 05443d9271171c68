package knowledge_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/excerpt"
	"github.com/sluice-rag/sluice/rag/knowledge"
)

// counter embeds texts as their first numbers, and keeps what it was asked for.
type counter struct {
	embed.Embedder
	digest string
	dim    int
	fails  error

	mu    sync.Mutex
	asked []string
}

func (c *counter) Info() embed.Info {
	info := c.Embedder.Info()
	info.Digest, info.Dim = c.digest, c.dim
	return info
}

func (c *counter) Embed(_ context.Context, texts []string, role embed.Role) (*embed.Embeddings, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fails != nil {
		return nil, c.fails
	}
	if role == embed.Document {
		c.asked = append(c.asked, texts...)
	}
	e := &embed.Embeddings{Dim: c.dim, Data: make([]float32, len(texts)*c.dim)}
	for i, text := range texts {
		copy(e.Row(i), []float32{float32(len(text)), float32(text[len(text)/2]), 1, float32(len(c.digest))})
	}
	return e, nil
}

// newCounted returns a base with such an encoder, which can be exchanged.
func newCounted(t *testing.T, dim int) (*doubles.Base, *counter) {
	c := &counter{Embedder: doubles.NewEncoder(), digest: "one", dim: dim}
	return doubles.NewBase(t, func(cfg *knowledge.Config) {
		cfg.Encoder = func(context.Context) (embed.Embedder, error) { return c, nil }
	}), c
}

// scores computes the sentence scores of passages for a fixed question.
func scores(t *testing.T, b *doubles.Base, c *counter, passages ...string) [][]excerpt.Sentence {
	t.Helper()
	e, err := c.Embed(t.Context(), []string{"What is this?"}, embed.Query)
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.SentenceScores(t.Context(), kernels.Cosine, []engine.Vectors{knowledge.Vectors(e)},
		[][]string{passages})
	if err != nil {
		t.Fatal(err)
	}
	return got[0]
}

// TestSentencesAreEmbeddedOnce: again, in another passage, twice in one, and by no other encoder than the base's.
func TestSentencesAreEmbeddedOnce(t *testing.T) {
	b, c := newCounted(t, 8)
	const tides, more = "The sea is wide. It has tides.", "It has tides. They are high. They are high."
	first := scores(t, b, c, tides)
	if diff := cmp.Diff(first, scores(t, b, c, tides)); diff != "" {
		t.Errorf("-first +again:\n%s", diff)
	}
	scores(t, b, c, more, tides)
	if want := []string{"The sea is wide.", "It has tides.", "They are high."}; !slices.Equal(c.asked, want) {
		t.Errorf("the encoder was asked for %q, not for %q", c.asked, want)
	}
	c.asked, c.digest = nil, "another"
	if cmp.Diff(first, scores(t, b, c, tides)) == "" {
		t.Error("another encoder's vectors give the same scores")
	}
	if len(c.asked) != 2 {
		t.Errorf("another encoder was asked for %q", c.asked)
	}
	lost := errors.New("lost")
	c.fails = lost
	_, err := b.SentenceScores(t.Context(), kernels.Cosine, make([]engine.Vectors, 1), [][]string{{"New."}})
	if !errors.Is(err, lost) {
		t.Errorf("the encoder's error became %v", err)
	}
}

// TestKeptSentencesAreBounded: the vectors are of a megabyte each, so that few fit; those used last stay.
func TestKeptSentencesAreBounded(t *testing.T) {
	b, c := newCounted(t, 1<<18)
	for i := range 100 {
		scores(t, b, c, "This one is used each time.", fmt.Sprintf("Sentence %d.", i))
		if bytes := b.KeptSentences(); bytes > knowledge.KeptSentenceBytes {
			t.Fatalf("%d bytes are kept after %d sentences, %d may be", bytes, i, knowledge.KeptSentenceBytes)
		}
	}
	if n := len(c.asked); n != 101 {
		t.Errorf("%d sentences were embedded, 101 are different", n)
	}
	if scores(t, b, c, "Sentence 0."); len(c.asked) != 102 {
		t.Error("a sentence that was not used for long is still there")
	}
	if err := b.Close(); err != nil || b.KeptSentences() != 0 {
		t.Errorf("%v; %d bytes are kept after Close", err, b.KeptSentences())
	}
}

// TestKeptSentencesAreShared by calls at the same time, which all get what one alone gets.
func TestKeptSentencesAreShared(t *testing.T) {
	b, c := newCounted(t, 8)
	want := scores(t, b, c, "The sea is wide. It has tides.")
	var calls sync.WaitGroup
	for i := range 8 {
		calls.Go(func() {
			for n := range 20 {
				other := fmt.Sprintf("Sentence %d of call %d.", n%7, i)
				if got := scores(t, b, c, other, "The sea is wide. It has tides."); cmp.Diff(got[1], want[0]) != "" {
					t.Errorf("%+v, alone %+v", got[1], want[0])
				}
			}
		})
	}
	calls.Wait()
	if len(c.asked) != 2+8*7 {
		t.Errorf("%d sentences were embedded, %d are different", len(c.asked), 2+8*7)
	}
}
