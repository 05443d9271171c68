package answer

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/internal/panics"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/flow"
	"github.com/sluice-rag/sluice/rag/knowledge"
)

// Question is one of a batch.
type Question struct {
	ID   string // for the caller, and in errors
	Text string
}

// ahead is how many answers a worker may finish before the first of them can be handed out: answers differ in length.
const ahead = 4

// gradedParallel is how many questions are under way at most in a graph with graders. Nearly all of its work is reading
// prompts, which gains nothing from others beside it, so more of them would make the first answer late and the last no
// sooner: three questions one by one cost 27 s of CPU time, the first answer after a third of that, and all three
// together 26 s, with no answer before the end.
const gradedParallel = 2

// Each answers questions, several at a time, and hands the answers to emit one by one in the order of the questions;
// each is what Run returns for the question alone. in.Question, Start, Stream and Sources are not used. The first
// error, of an answer or of emit, ends the rest, without waiting for the channel, which whoever sends on it closes. So
// does the end of ctx, but the answers that are finished then are still handed out.
func Each(
	ctx context.Context, base *knowledge.Base, in Input, questions <-chan Question,
	emit func(Question, *Answer) error,
) error {
	var err error
	if err = in.Check(); err != nil {
		return err
	}
	in.Start, in.Stream, in.Sources, in.priority = nil, nil, nil, llm.Batch
	if step := in.Step; step != nil {
		var one sync.Mutex
		in.Step = func(s flow.Step) {
			one.Lock()
			defer one.Unlock()
			step(s)
		}
	}
	if in.Parallel == 0 {
		in.Parallel = 1 // of quotes, which take the time of the encoder
		style, _, err := in.style(ctx, "")
		if err != nil {
			return err
		}
		if style == Write {
			model, err := in.Model(ctx)
			if err != nil {
				return err
			}
			in.Parallel = llm.ParallelOf(model)
		}
		graph, err := in.graph()
		if err != nil {
			return err
		}
		if _, graded := graph.Node(hallucinationNode); graded {
			in.Parallel = min(in.Parallel, gradedParallel)
		}
	}
	asked := ctx
	ctx, stop := context.WithCancel(cores.AsBatch(ctx))
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	order := make(chan *pending, ahead*in.Parallel)
	all.Go(func() {
		defer close(order)
		workers := make(chan struct{}, in.Parallel)
		for {
			q, more := receive(ctx, questions)
			p := &pending{question: q, done: make(chan struct{})}
			if !more || !send(ctx, workers, struct{}{}) || !send(ctx, order, p) {
				return
			}
			all.Go(func() {
				one := in
				one.Question = q.Text
				p.err = panics.Call(func() (err error) { p.answer, err = Run(ctx, base, one); return err })
				<-workers
				close(p.done)
			})
		}
	})
	for p := range order {
		<-p.done
		if p.err != nil && err == nil {
			err = fmt.Errorf("%s: %w", p.question.ID, p.err)
		}
		switch {
		case p.err != nil && asked.Err() != nil:
			continue
		case p.err != nil:
			return err
		}
		if err := emit(p.question, p.answer); err != nil {
			return err
		}
	}
	return cmp.Or(err, ctx.Err())
}

// pending is a question whose answer is being made.
type pending struct {
	question Question
	answer   *Answer
	err      error
	done     chan struct{} // closed when answer and err are final
}

// send returns false when ctx ended before.
func send[T any](ctx context.Context, to chan<- T, v T) bool {
	select {
	case to <- v:
		return true
	case <-ctx.Done():
		return false
	}
}

// receive returns false when the channel was closed, or ctx ended before something came.
func receive[T any](ctx context.Context, from <-chan T) (v T, ok bool) {
	select {
	case v, ok = <-from:
		return v, ok
	case <-ctx.Done():
		return v, false
	}
}
