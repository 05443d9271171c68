// Package kept keeps a model's answers in a file, so that long work that was interrupted goes on.
package kept

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/jsonl"
	"github.com/sluice-rag/sluice/llm"
)

// Answers is a file of a model's answers, a line each, with which long work that was interrupted goes on. Several
// goroutines may use it.
type Answers struct {
	mu    sync.Mutex
	known map[string]llm.Result // by the key of the request, as the file had them
	used  map[string]llm.Result // found or kept since it was opened
	file  *os.File              // nil: nothing is kept
}

const maxLine = 1 << 30 // bytes

// answerLine is a line of the file.
type answerLine struct {
	Request string     `json:"request"` // requestKey
	Result  llm.Result `json:"result"`
}

// requestKey identifies a request by the SHA-256 of its JSON.
func requestKey(r llm.Request) string {
	text, err := json.Marshal(r)
	if err != nil {
		return "" // a number that JSON does not have: not kept
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))
}

// Open reads a file and creates it if it does not exist; "" keeps nothing. A line that an interrupted process
// did not finish is skipped. The file belongs to one model: its name should have the model's digest.
func Open(path string) (*Answers, error) {
	a := &Answers{known: map[string]llm.Result{}, used: map[string]llm.Result{}}
	if path == "" {
		return a, nil
	}
	var err error
	if a.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
		return nil, fmt.Errorf("kept: answers of the model: %w", err)
	}
	for line, err := range jsonl.Lines(a.file, maxLine) {
		if err != nil {
			return nil, errors.Join(fmt.Errorf("kept: answers of the model: %w", err), a.Close())
		}
		var k answerLine
		if json.Unmarshal(line.Raw, &k) == nil && k.Request != "" {
			a.known[k.Request] = k.Result
		}
	}
	return a, nil
}

// Found returns how many answers the file had when it was opened.
func (a *Answers) Found() int { return len(a.known) }

// Find returns the answer that the file had to the same request.
func (a *Answers) Find(r llm.Request) (llm.Result, bool) {
	key := requestKey(r)
	a.mu.Lock()
	defer a.mu.Unlock()
	result, ok := a.known[key]
	if ok {
		a.used[key] = result
	}
	return result, ok
}

// Keep adds an answer to the file, unless it lacks the probabilities that were asked for. It writes a newline first,
// because an interrupted process may have left a line without one.
func (a *Answers) Keep(r llm.Request, result llm.Result) error {
	key := requestKey(r)
	line, err := json.Marshal(answerLine{key, result})
	if a.file == nil || key == "" || err != nil || r.LogProbs && len(result.LogProbs) == 0 {
		return nil // an infinite logarithm of a probability, which JSON does not have, is asked for again
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used[key] = result
	if _, err := a.file.Write(bytes.Join([][]byte{nil, line, nil}, []byte("\n"))); err != nil {
		return fmt.Errorf("kept: answers of the model: %w", err)
	}
	return nil
}

// Trim rewrites the file with the answers that were found or kept since it was opened, if there are others.
func (a *Answers) Trim() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	stale := false
	for key := range a.known {
		if _, ok := a.used[key]; !ok {
			stale = true
		}
	}
	if a.file == nil || !stale {
		return nil
	}
	return durable.Replace(a.file.Name(), func(w io.Writer) error {
		lines := json.NewEncoder(w)
		for key, result := range a.used {
			if err := lines.Encode(answerLine{key, result}); err != nil {
				return err
			}
		}
		return nil
	})
}

// Close closes the file.
func (a *Answers) Close() error {
	if a.file == nil {
		return nil
	}
	return a.file.Close()
}

// Generator takes an answer from Answers where they have it, and adds what the model answers.
type Generator struct {
	llm.Generator
	Answers *Answers
}

// Unwrap returns the generator that answers what is not kept.
func (g Generator) Unwrap() llm.Generator { return g.Generator }

// Generate returns the kept answer to the same request as a whole, without calling emit.
func (g Generator) Generate(ctx context.Context, r llm.Request, emit func(string) error) (llm.Result, error) {
	if result, ok := g.Answers.Find(r); ok {
		return result, ctx.Err()
	}
	result, err := g.Generator.Generate(ctx, r, emit)
	if err != nil {
		return result, err
	}
	return result, g.Answers.Keep(r, result)
}
