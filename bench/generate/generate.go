package generate

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/bench/harness"
	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/internal/buildinfo"
	"github.com/sluice-rag/sluice/llm"
)

var (
	// ErrOption: an option is out of range.
	ErrOption = errors.New("bench: bad option")
	// ErrPeer: a peer is not there, or does not answer as it should; the text says which and why.
	ErrPeer = errors.New("bench: peer not available")
)

// The entrants.
const (
	Own         = "sluice"
	LlamaBench  = "llama-bench"
	LlamaServer = "llama-server"
)

// Peers are the names that Options.Peers may hold.
func Peers() []string { return []string{LlamaBench, LlamaServer} }

// Workloads are what Options.Workloads may hold.
func Workloads() []string { return []string{"single", "concurrent", "prefix"} }

// Options of Run. Counts are tokens of the model unless said otherwise.
type Options struct {
	Model       string   // GGUF file
	Workloads   []string // of Workloads(); nil: all
	Peers       []string // of Peers(); nil: none
	Concurrency []int    // requests at once, 1 to 64 each
	Threads     int      // of every entrant; 0: all cores
	// PromptTokens and Tokens are what one stream reads and makes; their first ones are what each of
	// many requests does.
	PromptTokens, Tokens []int
	PrefixTokens         int // that the prompts of workload prefix share
	Batch                int // of one decode, of every entrant
	Rounds               int // turns of every entrant

	Tools string // folder of llama-bench and llama-server
	// Worker is a command that calls Serve with its standard streams. nil: Serve runs in this process, and
	// memory rows are about all of it.
	Worker []string

	// What is called as there is news; each may be nil.
	Row   func(Row)
	Ratio func(Ratio)
	Log   func(text string) // progress
	Note  func(text string) // what belongs into the report: who was left out and why
}

const (
	mostTokens = 1 << 17 // of a prompt, or of a text
	mostRounds = 1000
	slack      = 16  // cells of a request beyond what it should need
	suffixRoom = 64  // tokens of a prompt behind a shared prefix, at most
	cellStep   = 256 // llama.cpp's caches come in multiples of it
	settle     = 50 * time.Millisecond
)

func optionError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrOption, fmt.Sprintf(format, args...))
}

// check refuses what cannot be run, and fills in defaults that depend on the machine.
func (o *Options) check() error {
	if o.Workloads == nil {
		o.Workloads = Workloads()
	}
	for _, w := range o.Workloads {
		if !slices.Contains(Workloads(), w) {
			return optionError("workload %q (there are %s)", w, strings.Join(Workloads(), ", "))
		}
	}
	for _, p := range o.Peers {
		if !slices.Contains(Peers(), p) {
			return optionError("peer %q (there are %s)", p, strings.Join(Peers(), ", "))
		}
	}
	available := cores.Available()
	if o.Threads == 0 {
		o.Threads = available
	}
	if o.Threads < 1 || o.Threads > available {
		return optionError("%d threads are not between 1 and the %d cores: more would measure the scheduler", o.Threads, available)
	}
	lists := map[string][]int{"prompt tokens": o.PromptTokens, "tokens": o.Tokens, "prefix tokens": {o.PrefixTokens}, "tokens of a batch": {o.Batch}}
	for name, list := range lists {
		for _, n := range list {
			if n < 1 || n > mostTokens {
				return optionError("%d %s are not between 1 and %d", n, name, mostTokens)
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
	if most := slices.Max(o.Concurrency); o.Batch < most {
		return optionError("a batch of %d tokens is less than the %d requests at once", o.Batch, most)
	}
	if o.Rounds < 1 || o.Rounds > mostRounds {
		return optionError("%d rounds are not between 1 and %d", o.Rounds, mostRounds)
	}
	return nil
}

// session is one run.
type session struct {
	o      Options
	report *Report
	out    map[string]bool // peers that are not there
}

// Run measures the chosen workloads. Errors are ErrOption, llm.ErrUnavailable in a program without language
// models, what llm.Open says of the model, and ctx.Err(). A missing peer is noted and left out. The report
// holds what was measured until an error ended it; it is nil when nothing could begin.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if !llm.Available {
		return nil, fmt.Errorf("bench: %w", llm.ErrUnavailable)
	}
	s := &session{o: o, out: map[string]bool{}}
	s.report = &Report{
		Time: time.Now().UTC().Truncate(time.Second), CPU: harness.Processor(), System: runtime.GOOS + "/" + runtime.GOARCH,
		Settings: Settings{Threads: o.Threads, Batch: o.Batch, Rounds: o.Rounds, PromptTokens: o.PromptTokens, Tokens: o.Tokens, PrefixTokens: o.PrefixTokens},
		Versions: map[string]string{Own: strings.TrimSpace(buildinfo.Version + " " + buildinfo.Commit()), "go": runtime.Version()},
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

// takesPart says whether a peer is wanted and not known to be missing.
func (s *session) takesPart(peer string) bool {
	return slices.Contains(s.o.Peers, peer) && !s.out[peer]
}

// skip notes that a peer is not there.
func (s *session) skip(peer string, err error) {
	s.out[peer] = true
	s.note("%s is skipped: %v", peer, err)
}

func (s *session) tool(name string) string { return filepath.Join(s.o.Tools, name) }

// capacity is that of n requests of so many tokens. The cache holds a batch at least, as llama.cpp wants it.
func (s *session) capacity(n, tokens int) capacity {
	step := func(cells int) int { return (cells + cellStep - 1) / cellStep * cellStep }
	return capacity{
		Model: s.o.Model, Slots: n, Cells: max(step(tokens+slack), step((s.o.Batch+n-1)/n)), Batch: s.o.Batch, Threads: s.o.Threads,
	}
}

// rest lets the threads of the turn before go to sleep.
func rest(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(settle):
		return nil
	}
}

func (s *session) log(format string, args ...any) {
	if s.o.Log != nil {
		s.o.Log(fmt.Sprintf(format, args...))
	}
}

// note keeps a line for the report, once.
func (s *session) note(format string, args ...any) {
	text := strings.TrimPrefix(fmt.Sprintf(format, args...), "bench: ")
	if slices.Contains(s.report.Notes, text) {
		return
	}
	s.report.Notes = append(s.report.Notes, text)
	if s.o.Note != nil {
		s.o.Note(text)
	}
}
