//go:build native

package tests

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/llm/grammar"
)

var errConsumer = errors.New("the consumer has had enough")

// randomRequest asks for anything, some of it wrong.
func randomRequest(rng *rand.Rand) llm.Request {
	some := func(n int) bool { return rng.IntN(n) == 0 }
	r := llm.Request{Prompt: prose(rng.Uint64N(20), 1+rng.IntN(60)), MaxTokens: rng.IntN(60), Priority: rng.IntN(3) - 1,
		Seed: int64(rng.IntN(100)) - 1}
	if some(2) {
		r.Prompt = prose(7, 30) + r.Prompt // a shared beginning
	}
	if some(20) {
		r.Prompt = strings.Repeat("word ", 400) // too long
	}
	if some(20) {
		r.Prompt = "\x00\xff€\x80 " + r.Prompt
	}
	if some(3) {
		r.Messages, r.Prompt = []llm.Message{system(prose(rng.Uint64N(3), 20)), user(r.Prompt)}, ""
	}
	if some(2) {
		r.Temperature, r.TopK, r.TopP, r.MinP = rng.Float64()*3, rng.IntN(80), rng.Float64(), rng.Float64()/2
	}
	if some(4) {
		r.RepeatPenalty, r.FrequencyPenalty, r.PresencePenalty = .5+rng.Float64(), rng.Float64()*4-2, rng.Float64()*4-2
	}
	if some(4) {
		r.NoRepeatNGram = 1 + rng.IntN(3)
	}
	if some(4) {
		r.LogProbs, r.Alternatives = true, rng.IntN(21)
	}
	if some(4) {
		r.Stop = []string{"the", string(rune('a' + rng.IntN(26)))}
	}
	switch rng.IntN(12) {
	case 0:
		r.Grammar = `root ::= [a-z]{1,20} | "[" root "]"`
	case 1:
		r.Schema = []byte(`{"type":"object","properties":{"a":{"type":"string","maxLength":10},"b":{"type":"integer"}},"required":["a","b"],"additionalProperties":false}`)
	case 2:
		r.Grammar = `root ::= (`
	case 3:
		r.TopP = 7
	}
	return r
}

// TestSoak sends SLUICE_SOAK_REQUESTS (300) random requests after twice as many to warm up, many of which are cancelled
// at a random moment: nothing crashes, every error is one of those that the package documents, and slots, goroutines
// and memory come back.
func TestSoak(t *testing.T) {
	total := 300
	if s := os.Getenv("SLUICE_SOAK_REQUESTS"); s != "" {
		var err error
		if total, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	const workers, slots = 12, 4
	m := openTiny(t, llm.Options{ContextSize: 256, CacheTokens: 640, Slots: slots, BatchSize: 24, Queue: 7})
	goroutines := runtime.NumGoroutine()
	var sent, finished, busy atomic.Int64
	round := func(until int) {
		var all sync.WaitGroup
		for w := range workers {
			all.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(w), uint64(until)))
				for int(sent.Add(1)) <= until {
					switch err := soakOne(m, rng); {
					case err == nil:
						finished.Add(1)
					case errors.Is(err, llm.ErrBusy):
						busy.Add(1)
						sent.Add(-1) // to be tried again
						time.Sleep(time.Millisecond)
					case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
						errors.Is(err, errConsumer), errors.Is(err, llm.ErrOptions),
						errors.Is(err, llm.ErrPromptTooLong), errors.Is(err, grammar.ErrGrammar):
					default:
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		sent.Store(int64(until))
		settled(t, m)
		debug.FreeOSMemory()
	}
	round(2 * total) // by then all threads have been there, and their heaps
	warm := residentKB(t)
	round(3 * total)
	grown := residentKB(t) - warm
	t.Logf("%d requests: %d finished, %d found the queue full; %d kB resident after two thirds, %+d kB in the end",
		3*total, finished.Load(), busy.Load(), warm, grown)
	if finished.Load() < int64(total)/4 {
		t.Error("too few finish for the test to mean anything")
	}
	serveTogether(t, m, slots)
	for i := 0; runtime.NumGoroutine() > goroutines; i++ {
		if time.Sleep(10 * time.Millisecond); i == 200 {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), goroutines)
		}
	}
	if total >= 5000 && grown > warm/50 {
		t.Errorf("%d kB resident, %d kB more after as many requests again", warm, grown)
	}
}

// serveTogether checks that no slot is lost: as many requests as there are slots wait for each other after their first
// piece.
func serveTogether(t *testing.T, m *llm.Model, slots int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var begun, all sync.WaitGroup
	begun.Add(slots)
	met := make(chan struct{})
	go func() { begun.Wait(); close(met) }()
	for range slots {
		all.Go(func() {
			var once sync.Once
			defer once.Do(begun.Done) // whatever comes, the goroutine above ends
			_, err := m.Generate(ctx, llm.Request{Prompt: "x", MaxTokens: 20, Temperature: 1}, func(string) error {
				once.Do(begun.Done)
				select {
				case <-met:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
			if err != nil {
				t.Errorf("%d requests do not run together: %v", slots, err)
			}
		})
	}
	all.Wait()
}

// soakOne sends one request and perhaps ends it early.
func soakOne(m *llm.Model, rng *rand.Rand) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	switch rng.IntN(6) {
	case 0:
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, time.Duration(rng.IntN(30000))*time.Microsecond)
		defer stop()
	case 1:
		cancel()
	}
	pieces, last := 0, 1000
	if rng.IntN(4) == 0 {
		last = rng.IntN(20)
	}
	_, err := m.Generate(ctx, randomRequest(rng), func(string) error {
		if pieces++; pieces > last {
			return errConsumer
		}
		return nil
	})
	if rng.IntN(20) == 0 {
		if pin, err := m.PinPrompt(context.Background(), prose(rng.Uint64N(9), 10)); err == nil {
			defer pin.Release()
		}
		m.Stats()
	}
	return err
}
