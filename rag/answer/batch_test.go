package answer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/flow"
)

// crowd is a model that answers what it was asked, and only once `wanted` requests are under way; later ones at once.
// Earlier requests answer last.
type crowd struct {
	*doubles.Model
	wanted, running, most atomic.Int64
	together              chan struct{} // closed when so many run
	fail                  string        // a question with this text fails
}

func (c *crowd) Parallel() int { return int(c.wanted.Load()) }

func (c *crowd) Generate(ctx context.Context, r llm.Request, _ func(string) error) (llm.Result, error) {
	n := c.running.Add(1)
	defer c.running.Add(-1)
	for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
	}
	if n == c.wanted.Load() {
		select {
		case <-c.together:
		default:
			close(c.together)
		}
	}
	select {
	case <-c.together:
	case <-ctx.Done():
		return llm.Result{}, ctx.Err()
	}
	last := r.Messages[len(r.Messages)-1].Content
	if c.fail != "" && strings.Contains(last, c.fail) {
		return llm.Result{}, errors.New("broken")
	}
	if r.Priority != llm.Batch {
		return llm.Result{}, fmt.Errorf("priority %d", r.Priority)
	}
	return llm.Result{Text: "about " + last, Finish: llm.FinishStop}, nil
}

func newCrowd(n int64) *crowd {
	c := &crowd{Model: doubles.NewModel(), together: make(chan struct{})}
	c.wanted.Store(n)
	return c
}

func ask(t *testing.T, w world, c *crowd, parallel, questions int) (ids []string, answers []*answer.Answer, err error) {
	t.Helper()
	in := make(chan answer.Question)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		defer close(in)
		for i := range questions {
			select {
			case in <- answer.Question{ID: fmt.Sprint("q", i), Text: fmt.Sprintf("ships number %d?", i)}:
			case <-ctx.Done():
				return
			}
		}
	}()
	err = answer.Each(t.Context(), w.Base.Base, answer.Input{
		Options: answer.Options{Gate: answer.GateOpen, Parallel: parallel,
			Step: func(flow.Step) { t.Error("steps of several questions at a time are told") }},
		Model: func(context.Context) (llm.Generator, error) { return c, nil },
	}, in, func(q answer.Question, a *answer.Answer) error {
		ids, answers = append(ids, q.ID), append(answers, a)
		return nil
	})
	return ids, answers, err
}

// TestEach: as many questions as pay are under way at once, and the answers are those of one at a time, in order.
func TestEach(t *testing.T) {
	w := newWorld(t)
	one, several := newCrowd(1), newCrowd(5)
	ids, want, err := ask(t, w, one, 1, 23)
	if err != nil || len(want) != 23 || one.most.Load() != 1 {
		t.Fatalf("one at a time: %d answers, %d at once, %v", len(want), one.most.Load(), err)
	}
	ordered, got, err := ask(t, w, several, 0, 23)
	if err != nil || several.most.Load() != 5 {
		t.Fatalf("several at a time: %d at once, %v", several.most.Load(), err)
	}
	if diff := cmp.Diff(ids, ordered); diff != "" {
		t.Errorf("order (-one at a time):\n%s", diff)
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(answer.Trace{}, "Milliseconds"),
		cmpopts.IgnoreFields(flow.Step{}, "Milliseconds")); diff != "" {
		t.Errorf("answers (-one at a time):\n%s", diff)
	}
}

// TestEachEndsWithTheFirstError: answers before it are handed out, and nobody waits for more questions.
func TestEachEndsWithTheFirstError(t *testing.T) {
	w := newWorld(t)
	c := newCrowd(3)
	c.fail = "number 4?"
	ids, _, err := ask(t, w, c, 0, 1000)
	if err == nil || !strings.Contains(err.Error(), "q4: ") || len(ids) != 4 {
		t.Errorf("%v after %v", err, ids)
	}
	stopped := errors.New("enough")
	in := make(chan answer.Question, 1) // nobody closes it
	in <- answer.Question{ID: "only", Text: "ships?"}
	err = answer.Each(t.Context(), w.Base.Base, answer.Input{
		Options: answer.Options{Gate: answer.GateOpen},
		Model:   func(context.Context) (llm.Generator, error) { return newCrowd(1), nil },
	}, in, func(answer.Question, *answer.Answer) error { return stopped })
	if !errors.Is(err, stopped) {
		t.Errorf("%v", err)
	}
}
