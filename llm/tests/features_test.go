//go:build native

package tests

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/llm"
)

// openTiny opens a small model of random weights: what is tested is the machinery.
func openTiny(t *testing.T, o llm.Options) *llm.Model {
	t.Helper()
	path, err := presetFile(preset(t, "qwen2"))
	if err != nil {
		t.Fatal(err)
	}
	o.Threads, o.Logger = testThreads, slog.New(slog.DiscardHandler)
	m, err := llm.Open(context.Background(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func TestLogProbs(t *testing.T) {
	race.Skip(t)
	m := sharedModel(t)
	const alternatives = 5
	req := llm.Request{Messages: ask("What is the capital of France?"), MaxTokens: 12, LogProbs: true,
		Alternatives: alternatives}
	res := generate(t, m, req)
	var text strings.Builder
	for i, p := range res.LogProbs {
		text.WriteString(p.Text)
		sum := 0.
		for k, top := range p.Top {
			sum += math.Exp(top.LogProb)
			if k > 0 && top.LogProb > p.Top[k-1].LogProb || top.Top != nil {
				t.Errorf("token %d: %+v", i, p.Top)
			}
		}
		if len(p.Top) != alternatives || p.Top[0].Token != p.Token || p.Top[0].LogProb != p.LogProb || sum > 1+1e-5 ||
			p.LogProb > 0 {
			t.Errorf("token %d of a greedy completion: %+v", i, p)
		}
	}
	if len(res.LogProbs) != res.CompletionTokens || text.String() != res.Text {
		t.Errorf("%d log-probabilities of %d tokens, %q of %q",
			len(res.LogProbs), res.CompletionTokens, text.String(), res.Text)
	}
	stopped := req
	stopped.Stop = []string{res.LogProbs[3].Text + res.LogProbs[4].Text}
	if got := generate(t, m, stopped); !strings.Contains(text.String()[len(got.Text):], stopped.Stop[0]) ||
		len(got.LogProbs) > 3 || len(got.LogProbs) == 0 && got.Text != "" {
		t.Errorf("a stop string after 3 tokens leaves %d of them, and %q", len(got.LogProbs), got.Text)
	}
	// What the grammar forces has the probability that it had without.
	forced := req
	forced.Grammar = fmt.Sprintf("root ::= %q", res.LogProbs[0].Top[1].Text)
	got := generate(t, m, forced)
	if p := got.LogProbs[0]; p.Token != res.LogProbs[0].Top[1].Token ||
		math.Abs(p.LogProb-res.LogProbs[0].Top[1].LogProb) > nearTie {
		t.Errorf("forced %+v, was %+v", p, res.LogProbs[0].Top[1])
	}
	if req.Alternatives, req.LogProbs = 0, false; generate(t, m, req).LogProbs != nil {
		t.Error("log-probabilities that nobody asked for")
	}
}

// repeats counts the n-grams of tokens that come again.
func repeats(probs []llm.TokenLogProb, n int) (again int) {
	seen := map[string]bool{}
	for i := range max(0, len(probs)-n+1) {
		var key strings.Builder
		for _, p := range probs[i : i+n] {
			fmt.Fprint(&key, p.Token, " ")
		}
		if seen[key.String()] {
			again++
		}
		seen[key.String()] = true
	}
	return again
}

func TestNoRepeatNGram(t *testing.T) {
	race.Skip(t)
	m := sharedModel(t)
	req := llm.Request{Prompt: "la la la la la la la la la la", MaxTokens: 40, LogProbs: true}
	if free := generate(t, m, req); repeats(free.LogProbs, 2) == 0 {
		t.Fatalf("%q repeats nothing to begin with", free.Text)
	}
	for _, req.NoRepeatNGram = range []int{1, 2, 3} {
		for _, req.Temperature = range []float64{0, 1} {
			if res := generate(t, m, req); repeats(res.LogProbs, req.NoRepeatNGram) > 0 || res.CompletionTokens < 10 {
				t.Errorf("%d, temperature %v: %q", req.NoRepeatNGram, req.Temperature, res.Text)
			}
		}
	}
	// A grammar that asks for a repetition has its way.
	req.Grammar, req.NoRepeatNGram, req.Temperature = `root ::= "la la la la la la"`, 1, 0
	if res := generate(t, m, req); res.Text != "la la la la la la" {
		t.Errorf("%q", res.Text)
	}
}

func TestPenalties(t *testing.T) {
	race.Skip(t)
	m := sharedModel(t)
	req := llm.Request{Prompt: "la la la la la la la la la la", MaxTokens: 100, LogProbs: true}
	free := repeats(generate(t, m, req).LogProbs, 1)
	for name, set := range map[string]func(*llm.Request){
		"repeat": func(r *llm.Request) { r.RepeatPenalty = 1.5 }, "frequency": func(r *llm.Request) {
			r.FrequencyPenalty = 2
		},
		"presence": func(r *llm.Request) { r.PresencePenalty = 2 },
	} {
		r := req
		set(&r)
		if got := repeats(generate(t, m, r).LogProbs, 1); got >= free {
			t.Errorf("%s: %d repeated tokens, %d without", name, got, free)
		} else {
			t.Logf("%s: %d repeated tokens, %d without", name, got, free)
		}
	}
}

// A pinned system prompt stays while requests of the whole context come and go.
func TestPin(t *testing.T) {
	m := openTiny(t, llm.Options{ContextSize: 256, CacheTokens: 512, Slots: 2})
	common := system(prose(3, 40))
	pin, err := m.Pin(t.Context(), []llm.Message{common})
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(6) {
		generate(t, m, greedy(prose(100+i, 45), 0))
	}
	if s := m.Stats(); s.PinnedTokens != pin.Tokens || s.Evicted == 0 {
		t.Errorf("%d tokens pinned, want %d; %d histories evicted", s.PinnedTokens, pin.Tokens, s.Evicted)
	}
	res := generate(t, m, llm.Request{Messages: []llm.Message{common, user("hello")}, MaxTokens: 4})
	if res.CachedTokens < pin.Tokens-1 || pin.Tokens < 40 {
		t.Errorf("%d of %d pinned tokens are used", res.CachedTokens, pin.Tokens)
	}
	var refused error
	for i := range uint64(9) {
		p, err := m.PinPrompt(t.Context(), prose(200+i, 3))
		if err != nil {
			refused = err
			break
		}
		defer p.Release()
	}
	if !errors.Is(refused, llm.ErrOptions) || !strings.Contains(refused.Error(), "8 prompts are pinned") {
		t.Errorf("nine pins: %v", refused)
	}
	pin.Release()
	pin.Release()
	if _, err := m.PinPrompt(t.Context(), prose(5, 90)); !errors.Is(err, llm.ErrOptions) ||
		!strings.Contains(err.Error(), "would never fit") {
		t.Errorf("a pin without room: %v", err)
	}
	if _, err := m.PinPrompt(t.Context(), strings.Repeat("word ", 600)); !errors.Is(err, llm.ErrOptions) {
		t.Errorf("a pin longer than the context: %v", err)
	}
	if _, err := m.PinPrompt(t.Context(), ""); err == nil {
		t.Error("nothing was pinned")
	}
}

// With one slot, those that wait start by priority; as many wait as may.
func TestPriority(t *testing.T) {
	decodes := make(chan struct{}) // a decode waits until it has received
	m := openTiny(t, llm.Options{ContextSize: 512, Slots: 1, Queue: 3, Acquire: func() (int, func()) {
		<-decodes
		return 1, func() {}
	}})
	defer close(decodes)
	ended := make(chan int, 4)
	ask := func(priority int) {
		_, err := m.Generate(t.Context(), llm.Request{Prompt: "b", MaxTokens: 40, Priority: priority}, nil)
		if err != nil {
			t.Error(err)
		}
		ended <- priority
	}
	go ask(llm.Batch)
	decodes <- struct{}{} // the first one has the slot
	for i, priority := range []int{llm.Batch, 0, llm.Interactive} {
		go ask(priority)
		for m.Stats().Queued != i+1 {
			time.Sleep(time.Millisecond)
		}
	}
	if _, err := m.Generate(t.Context(), llm.Request{Prompt: "c"}, nil); !errors.Is(err, llm.ErrBusy) {
		t.Errorf("a fourth that waits: %v", err)
	}
	if s := m.Stats(); s.Queued != 3 {
		t.Errorf("%d wait", s.Queued)
	}
	order := make([]int, 0, 4)
	for len(order) < cap(order) {
		if len(order) < 3-m.Stats().Queued { // one that has ended gave its slot to the next
			order = append(order, <-ended)
			continue
		}
		select {
		case decodes <- struct{}{}:
		case p := <-ended:
			order = append(order, p)
		}
	}
	if !slices.Equal(order, []int{llm.Batch, llm.Interactive, 0, llm.Batch}) {
		t.Errorf("order %v", order)
	}
}

// TestPromptsShareTheRoom: a long prompt gets half of each batch however many shorter ones come, and these do not wait
// for it.
func TestPromptsShareTheRoom(t *testing.T) {
	m := openTiny(t, llm.Options{ContextSize: 2048, CacheTokens: 8192, Slots: 4, BatchSize: 64,
		Acquire: func() (int, func()) {
			time.Sleep(time.Millisecond) // so that there are always shorter ones
			return 1, func() {}
		}})
	long := strings.Repeat("the pump opens ", 150)
	short := func(i int64) string { return strings.Repeat(fmt.Sprintf("%d note ", i), 8) }
	done := make(chan struct{})
	var next, finished atomic.Int64
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for i := next.Add(1); i < 300; i = next.Add(1) {
				select {
				case <-done:
					return
				default:
				}
				generate(t, m, llm.Request{Prompt: short(i), MaxTokens: 1})
				finished.Add(1)
			}
		})
	}
	for m.Stats().Decodes < 3 {
		time.Sleep(time.Millisecond)
	}
	shorts := finished.Load()
	res := generate(t, m, llm.Request{Prompt: long, MaxTokens: 1})
	shorts = finished.Load() - shorts
	close(done)
	all.Wait()
	if shorts < 3 || shorts > 150 || res.PromptTokens < 1000 { // about 40, more when this goroutine waits for its turn
		t.Errorf("%d shorter prompts were read beside one of %d tokens", shorts, res.PromptTokens)
	}
}

// Eight requests that come at once and begin alike: what they share is read once, and each gets the completion that it
// would have got alone, up to near-ties.
func TestConcurrentPrefix(t *testing.T) {
	m := openModel(t, llm.Options{ContextSize: 1024, CacheTokens: 8192, Slots: 8})
	common := prose(11, 400)
	questions := []string{"France", "Germany", "Italy", "Japan", "Spain", "Russia", "England", "Greece"}
	request := func(i int) llm.Request {
		return llm.Request{Messages: []llm.Message{system(common),
			user("What is the capital of " + questions[i] + "?")}, MaxTokens: 24, LogProbs: true, Alternatives: 5}
	}
	results := make([]llm.Result, len(questions))
	var all sync.WaitGroup
	for i := range questions {
		all.Go(func() { results[i] = generate(t, m, request(i)) })
	}
	all.Wait()
	prompt, cached := 0, 0
	for _, r := range results {
		prompt, cached = prompt+r.PromptTokens, cached+r.CachedTokens
	}
	if cached < prompt*8/10 {
		t.Errorf("%d of %d prompt tokens reused", cached, prompt)
	}
	serial := openModel(t, llm.Options{ContextSize: 1024, Slots: 1})
	for i := range questions {
		sameCompletion(t, questions[i], results[i], generate(t, serial, request(i)))
	}
	t.Logf("%d of %d prompt tokens reused", cached, prompt)
}
