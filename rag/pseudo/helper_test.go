package pseudo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/embed/identity"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/corpus"
)

// scripted is a model that says what a function says, and counts.
type scripted struct {
	mu     sync.Mutex
	calls  int
	answer func(ctx context.Context, call int, r llm.Request) (llm.Result, error)
	window int
	name   string
}

func (s *scripted) Generate(ctx context.Context, r llm.Request, _ func(string) error) (llm.Result, error) {
	s.mu.Lock()
	s.calls++
	call := s.calls
	s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return llm.Result{}, err
	}
	return s.answer(ctx, call, r)
}

func (s *scripted) CountTokens(text string) (int, error) { return len(strings.Fields(text)), nil }
func (s *scripted) ContextSize() int                     { return max(s.window, 1) }
func (s *scripted) Info() llm.Info                       { return llm.Info{Name: s.name, SHA256: "5e6f"} }

// bag embeds a text as how often it names each subject: texts about the same one are close.
type bag struct {
	batches []int
	err     error
}

func (b *bag) Embed(_ context.Context, texts []string, role embed.Role) (*embed.Embeddings, error) {
	b.batches = append(b.batches, len(texts))
	dim := len(subjects) + 1
	e := &embed.Embeddings{Dim: dim}
	for _, text := range texts {
		v := make([]float32, dim)
		for _, w := range words(text) {
			if i := slices.Index(subjects, w); i >= 0 {
				v[i]++
			} else {
				v[dim-1] += .01
			}
		}
		e.Data = append(e.Data, v...)
	}
	return e, b.err
}

func (b *bag) CountTokens(text string) (int, error) { return len(words(text)), nil }
func (b *bag) Info() embed.Info {
	return embed.Info{Encoder: identity.Encoder{Dim: len(subjects) + 1}}
}

func newEngine(t testing.TB) *engine.Engine {
	t.Helper()
	e, err := engine.New(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

var subjects = []string{"volcano", "violin", "glacier", "parliament", "honeybee", "locomotive", "cathedral", "desert",
	"submarine", "orchard", "telescope", "monsoon"}

// base has a context about each subject, in three topics.
func base(t testing.TB) Contexts {
	t.Helper()
	var c Contexts
	var texts []string
	for i, s := range subjects {
		text := fmt.Sprintf("The %s is old. Nobody built the %s in a day because a %s takes long.", s, s, s)
		texts = append(texts, text)
		c.Chunks = append(c.Chunks, corpus.Chunk{ID: "c-" + s, Topic: fmt.Sprintf("topic%d", i%3), Text: text})
	}
	v, err := (&bag{}).Embed(t.Context(), texts, embed.Document)
	if err != nil {
		t.Fatal(err)
	}
	c.Vectors = engine.Vectors{Data: v.Data, Rows: len(texts), Dim: v.Dim}
	return c
}

// subject finds what a prompt's passage is about.
func subject(r llm.Request) string {
	for _, s := range subjects {
		if strings.Contains(r.Prompt, "The "+s) {
			return s
		}
	}
	return ""
}

// good answers each request with a question about the passage's subject, of the model's own making.
func good(window int) *scripted {
	return &scripted{window: window, name: "scripted",
		answer: func(_ context.Context, _ int, r llm.Request) (llm.Result, error) {
			return llm.Result{Text: fmt.Sprintf(" age may one %s reach, seed %d?", subject(r), r.Seed),
				Finish: llm.FinishStop}, nil
		}}
}

var errModel = errors.New("model fell over")

const plenty = math.MaxInt32
