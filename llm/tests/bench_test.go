//go:build native

package tests

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
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
		if err != nil || res.CompletionTokens < tokens/2 {
			b.Fatalf("%d tokens, %v", res.CompletionTokens, err)
		}
		decode += res.DecodeTime
		made += res.CompletionTokens - 1 // the first comes with the prompt
	}
	b.ReportMetric(float64(made)/decode.Seconds(), "tok/s")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkBesideGrammar measures a request's tokens for each second that the scheduler's thread works, which decodes
// alone here, and for each second that the request takes: without another request, beside one without a grammar, and
// beside ambiguous grammars, which are sent again and again; in turns. Ratios are what to compare, each of its own
// sum: to the first (NAME/alone, NAME/alone-wall), and to the second (NAME/plain-wall). Other work on the machine takes
// no part in the first kind only.
func BenchmarkBesideGrammar(b *testing.B) {
	const tokens = 64
	m, err := llm.Open(context.Background(), testModel(b),
		llm.Options{Threads: 1, Slots: 2, ContextSize: 1024, CacheTokens: 2048})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	scheduler := ""
	rate := func(beside *llm.Request) speed {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for beside != nil && ctx.Err() == nil {
				_, _ = m.Generate(ctx, *beside, nil)
			}
		}()
		defer func() { cancel(); <-ended }()
		if beside != nil {
			time.Sleep(300 * time.Millisecond)
		}
		before, began := threadTimes(b), time.Now()
		res, err := m.Generate(context.Background(), llm.Request{Prompt: "Once upon a time", MaxTokens: tokens}, nil)
		if err != nil || res.CompletionTokens < tokens/2 {
			b.Fatalf("%d tokens, %v", res.CompletionTokens, err)
		}
		took, after := time.Since(began), threadTimes(b)
		if scheduler == "" {
			for thread, t := range after {
				if scheduler == "" || t-before[thread] > after[scheduler]-before[scheduler] {
					scheduler = thread
				}
			}
		}
		n := float64(res.CompletionTokens)
		return speed{n / (after[scheduler] - before[scheduler]).Seconds(), n / took.Seconds()}
	}
	rate(nil) // warm up
	rounds, sums := 0, map[string]speed{}
	add := func(name string, beside *llm.Request) {
		r := rate(beside)
		sums[name] = speed{sums[name].cpu + r.cpu, sums[name].wall + r.wall}
	}
	for b.Loop() {
		rounds++
		add("alone", nil)
		add("plain", &llm.Request{Prompt: "x", MaxTokens: 800})
		for name, grammar := range ambiguous() {
			add(name, &llm.Request{Prompt: "x", Grammar: grammar, MaxTokens: 400})
		}
	}
	alone, plain := sums["alone"], sums["plain"]
	b.ReportMetric(alone.cpu/float64(rounds), "tok/cpu-s")
	b.ReportMetric(alone.wall/float64(rounds), "tok/s")
	b.ReportMetric(0, "ns/op")
	for name, sum := range sums {
		if name != "alone" {
			b.ReportMetric(sum.cpu/alone.cpu, name+"/alone")
			b.ReportMetric(sum.wall/alone.wall, name+"/alone-wall")
		}
		if name != "alone" && name != "plain" {
			b.ReportMetric(sum.wall/plain.wall, name+"/plain-wall")
		}
	}
}

// speed is in tokens per second: of the time that the scheduler's thread worked, and that passed.
type speed struct{ cpu, wall float64 }

// threadTimes returns how long each thread of this process has run.
func threadTimes(b *testing.B) map[string]time.Duration {
	files, err := filepath.Glob("/proc/self/task/*/schedstat")
	if err != nil || len(files) == 0 {
		b.Skip("SKIP: no /proc/self/task/*/schedstat")
	}
	times := map[string]time.Duration{}
	for _, f := range files {
		var ns int64
		if data, err := os.ReadFile(f); err == nil { // a thread may end
			_, _ = fmt.Sscan(string(data), &ns)
			times[f] = time.Duration(ns)
		}
	}
	return times
}
