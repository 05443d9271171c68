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

// examined is the model under examination. It counts each request as a call of the examination.
type examined struct {
	llm.Generator
	exam *exam
}

func (e *exam) model() examined { return examined{e.Model, e} }

// Generate makes one call of the model, or returns the answer that the file of answers has for the same request. A call
// that fails gives an empty answer; several in a row are an error.
func (x examined) Generate(ctx context.Context, r llm.Request, _ func(string) error) (llm.Result, error) {
	e := x.exam
	if ctx.Err() != nil { // another call has ended the examination
		return llm.Result{}, ctx.Err()
	}
	r.Priority = llm.Batch
	key, err := requestKey(r)
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
	result, err := x.Generator.Generate(within, r, nil)
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

// answers is a file of the model's answers, a line each, to which an examination adds its own.
type answers struct {
	known map[string]llm.Result // by requestKey, of an interrupted examination; not written to after open
	file  *os.File              // nil: nothing is kept
}

// answerLine is a line of the file.
type answerLine struct {
	Request string     `json:"request"` // requestKey
	Result  llm.Result `json:"result"`
}

// requestKey identifies a request by the SHA-256 of its JSON.
func requestKey(r llm.Request) (string, error) {
	text, err := json.Marshal(r)
	return fmt.Sprintf("%x", sha256.Sum256(text)), err
}

// open reads the answers in a file and creates it if it does not exist. A line that an interrupted process did not
// finish is skipped.
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
		var k answerLine
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

// keep adds an answer to the file. It writes a newline first, because an interrupted process may have left a line
// without one.
func (a *answers) keep(key string, r llm.Result) error {
	if a.file == nil {
		return nil
	}
	line, err := json.Marshal(answerLine{key, r})
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
