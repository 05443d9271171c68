package generate

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/sluice-rag/sluice/bench/harness"
	"github.com/sluice-rag/sluice/llm"
)

var (
	// ErrOption means that an option is out of range.
	ErrOption = errors.New("bench: bad option")
	// ErrPeer means that a peer is missing or does not respond as expected; the text names it and the reason.
	ErrPeer = errors.New("bench: peer not available")
)

// The competitors.
const (
	Own         = harness.Own
	LlamaBench  = "llama-bench"
	LlamaServer = "llama-server"
)

// OnGPU is Sluice with layers of the model on a GPU, compared with Sluice on the CPU.
const OnGPU = Own + "-gpu"

// Peers returns the names that Options.Peers may contain.
func Peers() []string { return []string{LlamaBench, LlamaServer, OnGPU} }

// Workloads returns the names that Options.Workloads may contain.
func Workloads() []string { return []string{"single", "concurrent", "prefix"} }

// Options of Run. Counts are tokens of the model unless said otherwise.
type Options struct {
	Model       string   // GGUF file
	Workloads   []string // of Workloads(); nil: all
	Peers       []string // of Peers(); nil: none
	Concurrency []int    // requests at once, 1 to 64 each
	Threads     int      // of every competitor; 0: all cores
	// PromptTokens and Tokens are the lengths of prompts and texts for a single stream; concurrent requests use the
	// first of each.
	PromptTokens, Tokens []int
	PrefixTokens         int // length of the shared prefix in workload prefix
	Batch                int // largest decode batch, for every competitor
	Rounds               int // runs per competitor

	GPULayers  int    // of OnGPU; 0 leaves it out
	GPULibrary string // llama.cpp's back-end for GPUs; "" is searched (llm.Options)

	Tools string // folder of llama-bench and llama-server
	// Worker is a command that calls Serve with its standard streams. If nil, Serve runs in this process, and the
	// memory rows are for the whole process.
	Worker []string

	// Callbacks are called as soon as there is something to report; each may be nil.
	Row   func(Row)
	Ratio func(Ratio)
	Log   func(text string) // progress
	Note  func(text string) // also added to the report: what was left out and why
}

const (
	maxTokens  = 1 << 17 // of a prompt, or of a text
	maxRounds  = 1000
	spareCells = 16  // per request, beyond the expected number
	suffixRoom = 64  // largest number of tokens of a prompt after a shared prefix
	cellStep   = 256 // llama.cpp rounds cache sizes up to a multiple of it
	settle     = 50 * time.Millisecond
)

func optionError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrOption, fmt.Sprintf(format, args...))
}

// check refuses invalid options, and fills in defaults that depend on the machine.
func (o *Options) check() error {
	if o.Workloads == nil {
		o.Workloads = Workloads()
	}
	err := errors.Join(harness.Known("workload", o.Workloads, Workloads()), harness.Known("peer", o.Peers, Peers()))
	if err == nil {
		o.Threads, err = harness.Threads(o.Threads)
	}
	if err != nil {
		return optionError("%v", err)
	}
	lists := map[string][]int{"prompt tokens": o.PromptTokens, "tokens": o.Tokens, "prefix tokens": {o.PrefixTokens},
		"tokens of a batch": {o.Batch}}
	for name, list := range lists {
		for _, n := range list {
			if n < 1 || n > maxTokens {
				return optionError("%d %s are not between 1 and %d", n, name, maxTokens)
			}
		}
	}
	if len(o.PromptTokens) == 0 || len(o.Tokens) == 0 || len(o.Concurrency) == 0 {
		return optionError("prompt tokens, tokens and concurrency need a value each")
	}
	for _, n := range o.Concurrency {
		if n < 1 || n > 64 {
			return optionError("concurrency %d is not between 1 and 64", n)
		}
	}
	if requests := slices.Max(o.Concurrency); o.Batch < requests {
		return optionError("a batch of %d tokens is less than the %d requests at once", o.Batch, requests)
	}
	if o.Rounds < 1 || o.Rounds > maxRounds {
		return optionError("%d rounds are not between 1 and %d", o.Rounds, maxRounds)
	}
	return nil
}

// session is one call of Run.
type session struct {
	o       Options
	report  *Report
	missing map[string]bool // peers that could not be run
}

// Run measures the chosen workloads. Errors are ErrOption, llm.ErrUnavailable in a program without language models,
// the errors of llm.Open, and ctx.Err(). A missing peer is noted and left out. On an error, the report holds what was
// measured until then; it is nil if nothing could be started.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if !llm.Available {
		return nil, fmt.Errorf("bench: %w", llm.ErrUnavailable)
	}
	s := &session{o: o, missing: map[string]bool{}}
	s.report = &Report{
		Time: harness.Now(), CPU: harness.Processor(), System: harness.System(),
		Settings: Settings{Threads: o.Threads, Batch: o.Batch, Rounds: o.Rounds, PromptTokens: o.PromptTokens,
			Tokens: o.Tokens, PrefixTokens: o.PrefixTokens},
		Versions: map[string]string{Own: harness.Version(), "go": runtime.Version()},
	}
	if v := linkedVersion(); v != "" {
		s.report.Versions["llama.cpp in "+Own] = v
	}
	steps := map[string]func(context.Context) error{"single": s.single, "concurrent": s.concurrent, "prefix": s.prefix}
	for _, w := range o.Workloads {
		if err := steps[w](ctx); err != nil {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			return s.report, err
		}
	}
	return s.report, nil
}

// takesPart reports whether a peer was chosen and is not known to be missing.
func (s *session) takesPart(peer string) bool {
	return slices.Contains(s.o.Peers, peer) && !s.missing[peer]
}

// skip notes that a peer is missing.
func (s *session) skip(peer string, err error) {
	s.missing[peer] = true
	s.note("%s is skipped: %v", peer, err)
}

func (s *session) tool(name string) string { return filepath.Join(s.o.Tools, name) }

// capacity returns the sizes for n requests of the given number of tokens. The cache holds at least a batch, which
// llama.cpp requires.
func (s *session) capacity(n, tokens int) capacity {
	step := func(cells int) int { return (cells + cellStep - 1) / cellStep * cellStep }
	return capacity{
		Model: s.o.Model, Slots: n, Cells: max(step(tokens+spareCells), step((s.o.Batch+n-1)/n)), Batch: s.o.Batch,
		Threads: s.o.Threads,
	}
}

// pause waits until the threads of the previous competitor are asleep.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(settle):
		return nil
	}
}

func (s *session) log(format string, args ...any) {
	harness.Say(s.o.Log, format, args...)
}

// note adds a line to the report, once.
func (s *session) note(format string, args ...any) {
	harness.Note(&s.report.Notes, s.o.Note, format, args...)
}
