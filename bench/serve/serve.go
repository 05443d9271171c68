package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sluice-rag/sluice/bench/harness"
	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine/cores"
)

var (
	// ErrOption: an option is out of range.
	ErrOption = errors.New("bench: bad option")
	// ErrPeer means that a peer is missing or does not answer as expected; the text names it and the reason.
	ErrPeer = errors.New("bench: peer not available")
	// ErrData: a data set is missing, or is not what it should be.
	ErrData = errors.New("bench: data not usable")
)

// The competitors.
const (
	Own       = harness.Own
	FastAPI   = "fastapi"
	Llama     = "llama-server"
	inProcess = "in-process" // one call of Sluice's encoder
)

// Peers returns the names that Options.Peers may hold.
func Peers() []string { return []string{FastAPI, Llama} }

// The workloads.
const (
	gateLoad       = "gate"
	lookupLoad     = "lookup"
	vectorsLoad    = "vectors"
	embeddingsLoad = "embeddings"
	generateLoad   = "generate"
)

// Workloads returns the values of Options.Workloads.
func Workloads() []string {
	return []string{gateLoad, lookupLoad, vectorsLoad, embeddingsLoad, generateLoad}
}

// Encoder is the encoder that all competitors use, in this process.
type Encoder interface {
	embed.Embedder
	Close() error
}

// Options of Run.
type Options struct {
	Workloads   []string // of Workloads(); nil: all
	Peers       []string // of Peers(); nil: none
	Connections []int    // of lookup and vectors; nil: 1, 8, 32
	Rounds      int      // of every competitor; 0: 5
	Seconds     float64  // of a round; 0: 5
	Rows        int      // contexts of vectors; 0: 10⁶
	Threads     int      // 0: all cores
	Short       bool     // one short round, few rows: to see that it works
	Data        string   // folder with squad16

	Program string // sluice, whose verbs ingest, calibrate and serve are run
	Open    func(ctx context.Context) (Encoder, error)
	Model   string // GGUF file of generate
	Python  string // interpreter of the peer; "": what the set-up made
	Tools   string // folder of llama-server
	Cache   string // where stores and vectors are kept; "": bench/serve below fetch.Root()

	// Callbacks, called as soon as there is something to report; each may be nil.
	Row   func(Row)
	Ratio func(Ratio)
	Log   func(text string) // progress
	Note  func(text string) // what also goes into the report: what was left out and why
}

func optionError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrOption, fmt.Sprintf(format, args...))
}

// check refuses what cannot be run, and fills in defaults.
func (o *Options) check() error {
	if o.Workloads == nil {
		o.Workloads = Workloads()
	}
	err := errors.Join(harness.Known("workload", o.Workloads, Workloads()), harness.Known("peer", o.Peers, Peers()))
	if err != nil {
		return optionError("%v", err)
	}
	if o.Connections == nil {
		o.Connections = []int{1, 8, 32}
	}
	for _, n := range o.Connections {
		if n < 1 || n > 1024 {
			return optionError("%d connections are not between 1 and 1024", n)
		}
	}
	if o.Rounds < 0 || o.Seconds < 0 || o.Rows < 0 || o.Threads < 0 || o.Program == "" || o.Open == nil {
		return optionError("%d rounds of %g s, %d rows, %d threads", o.Rounds, o.Seconds, o.Rows, o.Threads)
	}
	if o.Short {
		o.Rounds, o.Seconds, o.Rows = 1, .5, 2000
	}
	for at, initial := range map[*int]int{&o.Rounds: 5, &o.Rows: 1_000_000, &o.Threads: cores.Available()} {
		if *at == 0 {
			*at = initial
		}
	}
	if o.Seconds == 0 {
		o.Seconds = 5
	}
	err = harness.InCache(map[*string]string{&o.Cache: "bench/serve", &o.Python: "bench/peers/serve-python3"})
	if err != nil {
		return err
	}
	return os.MkdirAll(o.Cache, 0o755)
}

func (o *Options) within() time.Duration { return time.Duration(o.Seconds * float64(time.Second)) }

// session is one call of Run.
type session struct {
	o         Options
	report    *Report
	encoder   Encoder
	questions []string
	contexts  []line // of squad16
	temp      string
}

// Run measures the chosen workloads. A missing peer is noted and left out.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &session{o: o, report: &Report{Time: harness.Now(), CPU: harness.Processor(), System: harness.System(),
		Threads: o.Threads, Short: o.Short, Version: harness.Version()}}
	if s.questions, err = readQuestions(o.Data); err != nil {
		return nil, err
	}
	if s.contexts, err = readLines(contextsFile(o.Data)); err != nil {
		return nil, err
	}
	if s.encoder, err = o.Open(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.encoder.Close()) }()
	if s.temp, err = os.MkdirTemp("", "sluice-bench-serve-*"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(s.temp)
	run := map[string]func(context.Context) error{gateLoad: s.gate, lookupLoad: s.lookup, vectorsLoad: s.vectors,
		embeddingsLoad: s.embeddings, generateLoad: s.generate}
	for _, w := range o.Workloads {
		s.log("workload %s", w)
		if err := run[w](ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", w, err)
		}
	}
	return s.report, nil
}

func (s *session) log(format string, args ...any) {
	harness.Say(s.o.Log, format, args...)
}

// note adds a line to the report.
func (s *session) note(format string, args ...any) {
	harness.Note(&s.report.Notes, s.o.Note, format, args...)
}

// publish reports what competitors have done in a workload; the first is Sluice's.
func (s *session) publish(workload string, all ...*measured) {
	for i, m := range all {
		r := m.row(workload)
		s.report.Rows = append(s.report.Rows, r)
		if s.o.Row != nil {
			s.o.Row(r)
		}
		if i > 0 {
			x := all[0].against(m, workload)
			s.report.Ratios = append(s.report.Ratios, x)
			if s.o.Ratio != nil {
				s.o.Ratio(x)
			}
		}
	}
}
