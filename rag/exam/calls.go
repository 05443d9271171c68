package exam

import (
	"context"
	"fmt"
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
	e.mu.Lock()
	e.card.Calls++
	e.done++
	e.progress()
	e.mu.Unlock()
	if known, ok := e.answers.Find(r); ok {
		return known, nil
	}
	most := perCall
	if e.Within > 0 {
		most = min(most, e.Within)
	}
	within, cancel := context.WithTimeout(ctx, most)
	result, err := x.Generator.Generate(within, r, nil)
	cancel()
	if ctx.Err() != nil {
		return llm.Result{}, ctx.Err()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return result, e.finish(r, result, err)
}

// finish counts a call that has ended and keeps its answer.
func (e *exam) finish(r llm.Request, result llm.Result, err error) error {
	if e.failed++; err == nil {
		e.failed = 0
		if err := e.answers.Keep(r, result); err != nil {
			return err
		}
	}
	if e.failed >= maxFailures {
		return fmt.Errorf("%w: %d calls in a row failed: %w", ErrModel, e.failed, err)
	}
	if e.finished++; e.finished <= probes && e.Within > 0 {
		all := time.Since(e.started) * time.Duration(e.total-e.answers.Found())
		if all/probes > e.Within { // the other probes only add to it
			return &LongError{all / time.Duration(e.finished), e.Within}
		}
	}
	return nil
}
