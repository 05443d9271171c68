package answer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
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
	ended := 0
	defer func() {
		if err == nil && ended != len(ids) {
			t.Errorf("%d answers, and %d last steps were told", len(ids), ended)
		}
	}()
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
		Options: overlay.On(answer.DefaultOptions(), answer.Options{Gate: answer.GateOpen, Parallel: parallel,
			Step: func(s flow.Step) { // one at a time: the race detector watches
				if s.Next == flow.End {
					ended++
				}
			}}),
		Model: func(context.Context) (llm.Generator, error) { return c, nil },
	}, in, func(q answer.Question, a *answer.Answer) error {
		ids, answers = append(ids, q.ID), append(answers, a)
		return nil
	})
	return ids, answers, err
}

// TestEach: as many questions run in parallel as the model reports to be worthwhile, and the answers equal those of a
// sequential run, in the same order.
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
		Options: overlay.On(answer.DefaultOptions(), answer.Options{Gate: answer.GateOpen}),
		Model:   func(context.Context) (llm.Generator, error) { return newCrowd(1), nil },
	}, in, func(answer.Question, *answer.Answer) error { return stopped })
	if !errors.Is(err, stopped) {
		t.Errorf("%v", err)
	}
}

// stopping is a model that answers all questions but those with the word "slow", which wait for the end of ctx.
type stopping struct{ *doubles.Model }

func (s stopping) Parallel() int { return 4 }

func (s stopping) Generate(ctx context.Context, r llm.Request, _ func(string) error) (llm.Result, error) {
	if strings.Contains(r.Messages[len(r.Messages)-1].Content, "slow") {
		<-ctx.Done()
		return llm.Result{}, ctx.Err()
	}
	return llm.Result{Text: "So.", Finish: llm.FinishStop}, nil
}

// TestEachKeepsWhatIsFinished: after an interrupt, answers that had to wait for one before them are handed out, in
// order.
func TestEachKeepsWhatIsFinished(t *testing.T) {
	w := newWorld(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	in := make(chan answer.Question, 4)
	for _, id := range []string{"a", "slow", "b", "c"} {
		in <- answer.Question{ID: id, Text: "ships " + id + "?"}
	}
	finished := 0
	var got []string
	err := answer.Each(ctx, w.Base.Base, answer.Input{
		Options: overlay.On(answer.DefaultOptions(), answer.Options{Gate: answer.GateOpen, Step: func(s flow.Step) {
			if s.Next == flow.End {
				if finished++; finished == 3 {
					stop()
				}
			}
		}}),
		Model: func(context.Context) (llm.Generator, error) { return stopping{doubles.NewModel()}, nil },
	}, in, func(q answer.Question, a *answer.Answer) error {
		if a.Answer != "So." {
			t.Errorf("%s: %+v", q.ID, a)
		}
		got = append(got, q.ID)
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "slow: ") || !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("%v after %v", err, got)
	}
}

// busy is an actor that counts how many requests are under way at once.
type busy struct {
	*actor
	running, most atomic.Int64
}

func (b *busy) Parallel() int { return 8 }

func (b *busy) Generate(ctx context.Context, r llm.Request, stream func(string) error) (llm.Result, error) {
	n := b.running.Add(1)
	defer b.running.Add(-1)
	for most := b.most.Load(); n > most && !b.most.CompareAndSwap(most, n); most = b.most.Load() {
	}
	time.Sleep(time.Millisecond) // others would come meanwhile
	return b.actor.Generate(ctx, r, stream)
}

// TestGradedQuestionsInTurn: a graph with graders has two questions under way at most, whatever the model could take.
func TestGradedQuestionsInTurn(t *testing.T) {
	w := newWorld(t)
	in := make(chan answer.Question, 40)
	for i := range cap(in) {
		in <- answer.Question{ID: fmt.Sprint(i), Text: inScope}
	}
	close(in)
	m, n := &busy{actor: newActor(nil)}, 0
	err := answer.Each(t.Context(), w.Base.Base, answer.Input{
		Options: overlay.On(answer.DefaultOptions(), answer.Options{Flow: "graph"}),
		Model:   func(context.Context) (llm.Generator, error) { return m, nil }}, in,
		func(answer.Question, *answer.Answer) error { n++; return nil })
	if most := m.most.Load(); err != nil || n != cap(in) || most > 2 {
		t.Errorf("%d answers, %d requests at once, %v", n, most, err)
	}
}
