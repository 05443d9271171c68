package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/serve/openai"
)

// bySeed answers with the prompt and the seed, in two pieces; a prompt has 4 tokens, of which 1 is cached, an answer 2.
func bySeed(_ context.Context, r llm.Request, stream func(string) error) (llm.Result, error) {
	said := r.Prompt
	if said == "" {
		said = r.Messages[0].Content
	}
	second := fmt.Sprint(r.Seed)
	if stream != nil {
		for _, piece := range []string{said, second} {
			if err := stream(piece); err != nil {
				return llm.Result{}, err
			}
		}
	}
	return llm.Result{Text: said + second, PromptTokens: 4, CachedTokens: 1, CompletionTokens: 2,
		Finish: llm.FinishStop}, nil
}

// TestSeveralAnswers checks that n answers differ by their seeds, that the prompt counts once, and that a stream has
// all of them.
func TestSeveralAnswers(t *testing.T) {
	w := worldOf(t, func(ctx context.Context, r llm.Request, s func(string) error) (llm.Result, error) {
		if r.Priority != llm.Batch {
			t.Errorf("priority %d", r.Priority)
		}
		return bySeed(ctx, r, s)
	})
	const request = `{"model":"default","messages":[{"role":"user","content":"Hi "}],"n":3,"seed":5`
	status, body := do(t, w, post("/v1/chat/completions", request+"}"))
	a := as[openai.ChatCompletion](t, body)
	if status != 200 || len(a.Choices) != 3 {
		t.Fatal(status, body)
	}
	for i, c := range a.Choices {
		if c.Index != i || *c.Message.Content != fmt.Sprint("Hi ", 5+i) || c.FinishReason != "stop" {
			t.Errorf("answer %d: %+v", i, c)
		}
	}
	want := &openai.Usage{PromptTokens: 4, CompletionTokens: 6, TotalTokens: 10,
		PromptDetails:     &openai.PromptDetails{CachedTokens: 1},
		CompletionDetails: &openai.CompletionDetails{}}
	if d := cmp.Diff(want, a.Usage); d != "" {
		t.Error(d)
	}
	status, body = do(t, w, post("/v1/chat/completions", request+`,"stream":true,`+
		`"stream_options":{"include_usage":true}}`))
	list := chunks(t, body)
	if status != 200 || len(list) != 3*4+1 {
		t.Fatal(status, body)
	}
	var texts, ends, roles [3]string
	for _, c := range list[:len(list)-1] {
		at, d := c.Choices[0].Index, c.Choices[0].Delta
		if roles[at] += d.Role; d.Content != nil {
			texts[at] += *d.Content
		}
		if c.Choices[0].FinishReason != nil {
			ends[at] += *c.Choices[0].FinishReason
		}
	}
	if texts != [3]string{"Hi 5", "Hi 6", "Hi 7"} || ends != [3]string{"stop", "stop", "stop"} ||
		roles != [3]string{"assistant", "assistant", "assistant"} {
		t.Errorf("%q %q %q", texts, ends, roles)
	}
	if d := cmp.Diff(want, list[len(list)-1].Usage); d != "" {
		t.Error(d)
	}
}

// TestSeveralPrompts checks that the completions of the first prompt come first, and that each prompt counts once.
func TestSeveralPrompts(t *testing.T) {
	w := worldOf(t, bySeed)
	const request = `{"prompt":["a","b"],"n":2,"seed":1`
	status, body := do(t, w, post("/v1/completions", request+"}"))
	a := as[openai.Completion](t, body)
	if status != 200 || len(a.Choices) != 4 || a.Usage.PromptTokens != 8 || a.Usage.CompletionTokens != 8 ||
		a.Usage.TotalTokens != 16 {
		t.Fatal(status, body)
	}
	for i, want := range []string{"a1", "a2", "b1", "b2"} {
		if a.Choices[i].Index != i || a.Choices[i].Text != want || *a.Choices[i].FinishReason != "stop" {
			t.Errorf("%d: %+v", i, a.Choices[i])
		}
	}
	status, body = do(t, w, post("/v1/completions", request+`,"stream":true,"stream_options":{"include_usage":true}}`))
	events := strings.Split(strings.TrimSuffix(body, "\n\n"), "\n\n")
	if status != 200 || len(events) != 4*3+2 || events[13] != "data: [DONE]" {
		t.Fatal(status, body)
	}
	var texts [4]string
	for _, e := range events[:12] {
		c := as[openai.Completion](t, strings.TrimPrefix(e, "data: ")).Choices[0]
		texts[c.Index] += c.Text
	}
	if texts != [4]string{"a1", "a2", "b1", "b2"} || !strings.Contains(events[12], `"prompt_tokens":8`) {
		t.Errorf("%q %s", texts, events[12])
	}
}

// together is a model that decodes several requests together, and records the largest number under way.
type together struct {
	*doubles.Model
	at, most atomic.Int64
	answer   func(r llm.Request) (llm.Result, error)
}

func (*together) Parallel() int { return 4 }

func (m *together) Generate(_ context.Context, r llm.Request, stream func(string) error) (llm.Result, error) {
	defer m.at.Add(-1)
	for n := m.at.Add(1); ; {
		if most := m.most.Load(); n <= most || m.most.CompareAndSwap(most, n) {
			break
		}
	}
	if stream != nil {
		if err := stream("x"); err != nil {
			return llm.Result{}, err
		}
	}
	return m.answer(r)
}

// TestSeveralTakeFreePlaces checks that completions are generated together as far as the model and the limit of answers
// allow.
func TestSeveralTakeFreePlaces(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.Answers = 3 })
	w.answering.Store(1) // the request itself
	places, leave := w.morePlaces(8)
	if places != 3 || w.answering.Load() != 3 {
		t.Errorf("%d places, %d taken", places, w.answering.Load())
	}
	if none, more := w.morePlaces(8); none != 1 {
		t.Errorf("%d places", none)
	} else {
		more()
	}
	if leave(); w.answering.Load() != 1 {
		t.Errorf("%d are kept", w.answering.Load())
	}
	w.answering.Store(0)

	m := &together{Model: doubles.NewModel("")}
	var all sync.WaitGroup
	all.Add(4)
	m.answer = func(llm.Request) (llm.Result, error) {
		all.Done()
		all.Wait() // as many as decode together have begun
		return llm.Result{Text: "x", Finish: llm.FinishStop}, nil
	}
	w = newWorldOf(t, m)
	status, body := do(t, w, post("/v1/completions", `{"prompt":["a","b","c","d"]}`))
	if status != 200 || m.most.Load() != 4 || w.answering.Load() != 0 {
		t.Errorf("%d %s: %d at most, %d places are kept", status, body, m.most.Load(), w.answering.Load())
	}
}

// TestSeveralEndTogether checks that the failure of one completion, also by a panic, ends the request, in a stream by
// an event.
func TestSeveralEndTogether(t *testing.T) {
	m := &together{Model: doubles.NewModel("")}
	w := newWorldOf(t, m)
	for name, c := range map[string]struct {
		answer func(r llm.Request) (llm.Result, error)
		status int
	}{
		"error": {func(r llm.Request) (llm.Result, error) {
			if r.Seed == 3 {
				return llm.Result{}, &llm.BusyError{Limit: 3}
			}
			return llm.Result{Finish: llm.FinishStop}, nil
		}, 429},
		"panic": {func(r llm.Request) (llm.Result, error) {
			if r.Seed == 3 {
				panic(errors.New("secret"))
			}
			return llm.Result{Finish: llm.FinishStop}, nil
		}, 500},
	} {
		m.answer = c.answer
		status, body := do(t, w, post("/v1/completions", `{"prompt":"a","n":9,"seed":1}`))
		if e := failure(t, body); status != c.status || strings.Contains(e.Message, "secret") {
			t.Errorf("%s: %d %s", name, status, body)
		}
		out := httptest.NewRecorder()
		w.ServeHTTP(out, post("/v1/completions", `{"prompt":"a","n":9,"seed":1,"stream":true}`))
		events := strings.Split(strings.TrimSpace(out.Body.String()), "\n\n")
		failure(t, strings.TrimPrefix(events[len(events)-1], "data: "))
		if strings.Contains(out.Body.String(), "[DONE]") || strings.Contains(out.Body.String(), "secret") {
			t.Errorf("%s: %s", name, out.Body)
		}
	}
	if w.answering.Load() != 0 {
		t.Errorf("%d places are kept", w.answering.Load())
	}
	if !strings.Contains(w.log.String(), "secret") || !strings.Contains(w.log.String(), "several_test.go") {
		t.Error("the log does not say where the panic was")
	}
}
