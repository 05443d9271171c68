//go:build native

package tests

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/llm"
)

// BenchmarkDecode measures what `llama-bench -p 0 -n 64` measures, through all of our layers: 64 tokens of one stream,
// greedy, after a short prompt. SLUICE_BENCH_THREADS sets the threads (llama-bench's -t).
// Run the two in turns: absolute figures move with the machine.
func BenchmarkDecode(b *testing.B) {
	const tokens = 64
	threads, _ := strconv.Atoi(os.Getenv("SLUICE_BENCH_THREADS"))
	m, err := llm.Open(context.Background(), testModel(b), llm.Options{Threads: threads, Slots: 1, ContextSize: 512})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	req := llm.Request{Prompt: "Once upon a time", MaxTokens: tokens}
	if _, err := m.Generate(context.Background(), req, nil); err != nil { // warm up, as llama-bench does
		b.Fatal(err)
	}
	var decode time.Duration
	var made int
	for b.Loop() {
		res, err := m.Generate(context.Background(), req, func(string) error { return nil })
		if err != nil || res.CompletionTokens != tokens {
			b.Fatalf("%d tokens, %v", res.CompletionTokens, err)
		}
		decode += res.DecodeTime
		made += res.CompletionTokens - 1 // the first comes with the prompt
	}
	b.ReportMetric(float64(made)/decode.Seconds(), "tok/s")
	b.ReportMetric(0, "ns/op")
}
