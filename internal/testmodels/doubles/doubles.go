// Package doubles has an encoder and a language model for tests that need neither model files nor native parts.
package doubles

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash/fnv"
	"math"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/embed/identity"
	"github.com/sluice-rag/sluice/llm"
)

const dim = 256

// Encoder is an embed.Embedder: a text is the bag of its words, hashed into 256 dimensions and normalised. It
// reads Limit tokens: the words and two special ones.
type Encoder struct {
	Name      string // also what its digest is made of
	Limit     int
	Languages string                     // of Info
	Calls     atomic.Int64               // of Embed
	After     func(texts []string)       // called after each Embed; may be nil
	Fail      func(texts []string) error // Embed returns its error; may be nil
	Stuck     bool                       // Embed returns when its context ends
}

// NewEncoder returns an encoder that reads 64 tokens.
func NewEncoder() *Encoder { return &Encoder{Name: "words", Limit: 64} }

// Embed returns one vector per text.
func (e *Encoder) Embed(ctx context.Context, texts []string, _ embed.Role) (*embed.Embeddings, error) {
	e.Calls.Add(1)
	if e.Fail != nil {
		if err := e.Fail(texts); err != nil {
			return nil, err
		}
	}
	if e.Stuck {
		<-ctx.Done()
	}
	out := &embed.Embeddings{Dim: dim, Data: make([]float32, len(texts)*dim), Tokens: make([]int, len(texts))}
	for i, text := range texts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if strings.ContainsRune(text, 0) {
			out.Repaired++
		}
		words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return r < 'a' || r > 'z' })
		if len(words)+2 > e.Limit {
			out.Truncated++
			words = words[:e.Limit-2]
		}
		out.Tokens[i] = len(words) + 2
		count(out.Row(i), words)
	}
	if e.After != nil {
		e.After(texts)
	}
	return out, nil
}

// count writes the normalised counts of hashed words.
func count(row []float32, words []string) {
	for _, w := range words {
		h := fnv.New32a()
		h.Write([]byte(w))
		row[h.Sum32()%dim]++
	}
	var norm float64
	for _, x := range row {
		norm += float64(x * x)
	}
	for j := range row {
		if norm > 0 {
			row[j] /= float32(math.Sqrt(norm))
		}
	}
}

// CountTokens counts words, and two special tokens.
func (e *Encoder) CountTokens(text string) (int, error) { return len(strings.Fields(text)) + 2, nil }

// Info identifies the encoder by its name.
func (e *Encoder) Info() embed.Info {
	sum := sha256.Sum256([]byte(e.Name))
	digest := "sha256:" + hex.EncodeToString(sum[:])
	id := identity.Encoder{Name: e.Name, Digest: digest, TokenizerDigest: digest, Dim: dim}
	return embed.Info{Encoder: id, MaxTokens: e.Limit, Architecture: "double", Languages: e.Languages}
}

// Model is an llm.Generator that gives its answers in turn, the last one for ever, word by word, and keeps the
// requests. A word is a token.
type Model struct {
	Answers []string
	Say     func(llm.Request) string // answers instead of Answers; may be nil
	Digest  string                   // of Info; "" is one of zeros
	Window  int
	Thought string                      // before each answer to a request with thinking; "": the model never thinks
	Wait    func(context.Context) error // called by Generate before it answers; may be nil
	// Top returns the most probable tokens for a request with LogProbs, whose answer counts as one token. nil: the
	// model gives none.
	Top func(llm.Request) []llm.TokenLogProb

	mu       sync.Mutex
	requests []llm.Request
}

// NewModel returns a model with a window of 2048 tokens.
func NewModel(answers ...string) *Model { return &Model{Answers: answers, Window: 2048} }

// Generate gives the next answer.
func (m *Model) Generate(ctx context.Context, r llm.Request, stream func(string) error) (llm.Result, error) {
	m.mu.Lock()
	m.requests = append(m.requests, r)
	text := ""
	if m.Say != nil {
		text = m.Say(r)
	} else {
		text = m.Answers[min(len(m.requests), len(m.Answers))-1]
	}
	m.mu.Unlock()
	if m.Wait != nil {
		if err := m.Wait(ctx); err != nil {
			return llm.Result{Finish: llm.FinishCancelled}, err
		}
	}
	if err := ctx.Err(); err != nil {
		return llm.Result{}, err
	}
	result := llm.Result{Text: text, CompletionTokens: len(strings.Fields(text)), Finish: llm.FinishStop}
	if r.LogProbs && m.Top != nil {
		result.LogProbs = []llm.TokenLogProb{{Text: text, Top: m.Top(r)}}
	}
	if r.Thinking.On() {
		result.Thought, result.ThoughtTokens = m.Thought, len(strings.Fields(m.Thought))
		result.CompletionTokens += result.ThoughtTokens
		if err := give(m.Thought, r.Thinking.Stream); err != nil {
			return llm.Result{Finish: llm.FinishCancelled}, err
		}
	}
	if err := give(text, stream); err != nil {
		return llm.Result{Finish: llm.FinishCancelled}, err
	}
	return result, nil
}

// give hands a text to a stream function, which may be nil, word by word.
func give(text string, stream func(string) error) error {
	for piece := range strings.SplitAfterSeq(text, " ") {
		if stream == nil || piece == "" {
			break
		}
		if err := stream(piece); err != nil {
			return err
		}
	}
	return nil
}

// Thinks reports whether the model has a Thought.
func (m *Model) Thinks() bool { return m.Thought != "" }

// Requests returns the requests made so far, in order.
func (m *Model) Requests() []llm.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.requests
}

// Reset forgets the requests and takes other answers.
func (m *Model) Reset(answers ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests, m.Answers = nil, answers
}

// CountTokens counts words.
func (m *Model) CountTokens(text string) (int, error) { return len(strings.Fields(text)), nil }

// ContextSize returns the window.
func (m *Model) ContextSize() int { return m.Window }

// Info names the model.
func (m *Model) Info() llm.Info {
	return llm.Info{Name: "script", SHA256: cmp.Or(m.Digest, strings.Repeat("0", 64))}
}
