//go:build native

package embed

import (
	"context"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/engine/cores"
)

// TestConcurrentThroughput measures calls of one question from 32 callers, with batches of several calls and with
// batches of one (go test -tags native -run ConcurrentThroughput -throughput 5 -v), beside calls of 32 questions.
func TestConcurrentThroughput(t *testing.T) {
	if *throughput == 0 {
		t.Skip("SKIP: a benchmark; run with -throughput ROUNDS")
	}
	const callers, each = 32, 20
	questions := squad(t, "queries")
	texts := make([]string, callers*each)
	for i := range texts {
		texts[i] = questions[i*7%len(questions)]
	}
	for _, p := range []Precision{F32, Int8} {
		e := openEncoder(t, minilm(t), Options{Cores: cores.New(2), Precision: p})
		var latencies []time.Duration
		apart := func(joined bool) func() {
			return func() {
				latencies = nil
				e.batches.padded = !joined // a batch is of one call
				defer func() { e.batches.padded = false }()
				var all sync.WaitGroup
				var mu sync.Mutex
				for w := range callers {
					all.Go(func() {
						for i := range each {
							begun := time.Now()
							if _, err := e.Embed(context.Background(), texts[w*each+i:][:1], Query); err != nil {
								t.Error(err)
							}
							mu.Lock()
							latencies = append(latencies, time.Since(begun))
							mu.Unlock()
						}
					})
				}
				all.Wait()
			}
		}
		together := func() {
			for i := 0; i < len(texts); i += callers {
				embedAll(t, e, texts[i:i+callers], Query)
			}
		}
		together()
		for range *throughput {
			for _, side := range []struct {
				name string
				run  func()
			}{{"32 callers, batches of one call", apart(false)}, {"32 callers, joined", apart(true)},
				{"calls of 32", together}} {
				cpu, begun := processTime(t), time.Now()
				latencies = nil
				side.run()
				n := float64(len(texts))
				t.Logf("%-5s %-32s %.3f ms of CPU a text, %4.0f texts/s", p, side.name,
					1e3*(processTime(t)-cpu)/n, n/time.Since(begun).Seconds())
				if slices.Sort(latencies); len(latencies) > 0 {
					t.Logf("%38s p50 %v, p99 %v", "", latencies[len(latencies)/2], latencies[len(latencies)*99/100])
				}
			}
		}
		t.Logf("%s: %+v", p, e.Stats())
	}
}

// processTime returns the CPU time of this process, in seconds.
func processTime(t *testing.T) float64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		t.Fatal(err)
	}
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
}
