package sluice_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash/fnv"
	"math"
	"strings"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/llm"
)

// bag is an encoder double: a text is the bag of its words, hashed into dim dimensions.
type bag struct{ dim, limit int }

func (b bag) Embed(ctx context.Context, texts []string, _ embed.Role) (*embed.Embeddings, error) {
	e := &embed.Embeddings{Dim: b.dim, Data: make([]float32, len(texts)*b.dim), Tokens: make([]int, len(texts))}
	for i, text := range texts {
		words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return r < 'a' || r > 'z' })
		if len(words)+2 > b.limit {
			e.Truncated++
			words = words[:b.limit-2]
		}
		e.Tokens[i] = len(words) + 2
		var norm float64
		for _, w := range words {
			h := fnv.New32a()
			h.Write([]byte(w))
			e.Row(i)[int(h.Sum32())%b.dim]++
		}
		for _, x := range e.Row(i) {
			norm += float64(x * x)
		}
		for j := range e.Row(i) {
			if norm > 0 {
				e.Row(i)[j] /= float32(math.Sqrt(norm))
			}
		}
	}
	return e, ctx.Err()
}

func (b bag) CountTokens(text string) (int, error) { return len(strings.Fields(text)) + 2, nil }

func (b bag) Info() embed.Info {
	sum := sha256.Sum256([]byte("bag"))
	digest := "sha256:" + hex.EncodeToString(sum[:])
	return embed.Info{Name: "bag", Digest: digest, TokenizerDigest: digest, Dim: b.dim, MaxTokens: b.limit}
}

// script is a generator double: it gives its answers in turn, the last one for ever, and keeps the requests.
type script struct {
	answers  []string
	requests []llm.Request
	window   int
}

func (s *script) Generate(ctx context.Context, r llm.Request, stream func(string) error) (llm.Result, error) {
	s.requests = append(s.requests, r)
	text := s.answers[min(len(s.requests), len(s.answers))-1]
	if stream != nil {
		if err := stream(text); err != nil {
			return llm.Result{Finish: llm.FinishCancelled}, err
		}
	}
	return llm.Result{Text: text, CompletionTokens: len(strings.Fields(text)), Finish: llm.FinishStop}, ctx.Err()
}

func (s *script) CountTokens(text string) (int, error) { return len(strings.Fields(text)), nil }
func (s *script) ContextSize() int                     { return s.window }
func (s *script) Info() llm.Info                       { return llm.Info{Name: "script", SHA256: "00"} }
