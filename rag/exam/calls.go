package exam

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/sluice-rag/sluice/llm"
)

// calls is the model under examination: each of its calls is one of the examination.
type calls struct {
	llm.Generator
	exam *exam
}

func (e *exam) calls() calls { return calls{e.Model, e} }

// Generate makes one call of the model, or returns what an earlier examination was given for the same request. A call
// that fails gives nothing; several in a row are an error.
func (c calls) Generate(ctx context.Context, r llm.Request, _ func(string) error) (llm.Result, error) {
	e := c.exam
	if ctx.Err() != nil { // another call has ended the examination
		return llm.Result{}, ctx.Err()
	}
	r.Priority = llm.Batch
	key, err := keyOf(r)
	if err != nil {
		return llm.Result{}, err
	}
	e.mu.Lock()
	e.card.Calls++
	e.done++
	e.progress()
	e.mu.Unlock()
	if known, ok := e.answers.known[key]; ok {
		return known, nil
	}
	within, cancel := context.WithTimeout(ctx, perCall)
	result, err := c.Generator.Generate(within, r, nil)
	cancel()
	if ctx.Err() != nil {
		return llm.Result{}, ctx.Err()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return result, e.finish(key, result, err)
}

// finish counts a call that has ended and keeps its answer.
func (e *exam) finish(key string, result llm.Result, err error) error {
	if e.failed++; err == nil {
		e.failed = 0
		if err := e.answers.keep(key, result); err != nil {
			return err
		}
	}
	if e.failed >= maxFailures {
		return fmt.Errorf("%w: %d calls in a row failed: %w", ErrModel, e.failed, err)
	}
	if e.finished++; e.finished == probes && e.Within > 0 {
		left := e.total - len(e.answers.known)
		if all := time.Since(e.started) * time.Duration(left) / probes; all > e.Within {
			return &LongError{all, e.Within}
		}
	}
	return nil
}

// answers of the model, by request: those of an examination that was interrupted, and a file that this one's are added
// to, a line each.
type answers struct {
	known map[string]llm.Result // nothing is added after open
	file  *os.File              // nil: nothing is kept
}

// kept is a line of the file.
type kept struct {
	Request string     `json:"request"` // keyOf
	Result  llm.Result `json:"result"`
}

func keyOf(r llm.Request) (string, error) {
	text, err := json.Marshal(r)
	return fmt.Sprintf("%x", sha256.Sum256(text)), err
}

// open reads the answers in a file, which there need not be yet. Lines that a process was interrupted in are passed
// over.
func (a *answers) open(name string) (err error) {
	if name == "" {
		return nil
	}
	if a.file, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
		return fmt.Errorf("exam: answers of the model: %w", err)
	}
	a.known = map[string]llm.Result{}
	for lines := bufio.NewReader(a.file); ; {
		line, err := lines.ReadBytes('\n')
		var k kept
		if json.Unmarshal(line, &k) == nil {
			a.known[k.Request] = k.Result
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return errors.Join(fmt.Errorf("exam: answers of the model: %w", err), a.close())
		}
	}
}

// keep adds an answer to the file. It begins with the end of a line, because an interrupted process may have left one
// without.
func (a *answers) keep(key string, r llm.Result) error {
	if a.file == nil {
		return nil
	}
	line, err := json.Marshal(kept{key, r})
	if err == nil {
		_, err = a.file.Write(bytes.Join([][]byte{nil, line, nil}, []byte("\n")))
	}
	if err != nil {
		return fmt.Errorf("exam: answers of the model: %w", err)
	}
	return nil
}

func (a *answers) close() error {
	if a.file == nil {
		return nil
	}
	return a.file.Close()
}
