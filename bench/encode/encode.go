package encode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/sluice-rag/sluice/bench/harness"
	"github.com/sluice-rag/sluice/bench/limits"
	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

var (
	// ErrOption: an option is out of range.
	ErrOption = errors.New("bench: bad option")
	// ErrData: the texts are not there.
	ErrData = errors.New("bench: no texts")
)

// Own is the name of Sluice among the competitors.
const Own = harness.Own

// The workloads.
const (
	Mixed    = "mixed"    // 2,000 questions and sentences, as they come
	Contexts = "contexts" // squad16's contexts
	Question = "question" // one question of 12 tokens at a time
	Quality  = "quality"  // quality of each mode's vectors
)

// Workloads returns the values of Options.Workloads.
func Workloads() []string { return []string{Mixed, Contexts, Question, Quality} }

// Encoder is one of Sluice's modes.
type Encoder interface {
	embed.Embedder
	Close() error
}

// Options of Run.
type Options struct {
	Workloads  []string // of Workloads(); nil: all
	Precisions []string // Sluice's modes, as Open takes them; the others are compared with the first one
	Peers      []string // of Peers(); nil: none
	Threads    int      // of every competitor; 0: all cores
	Rounds     int      // of every competitor; 0: each workload's own number
	Short      bool     // few texts: to see that it works, not to measure
	Data       string   // folder with squad16, and for the workload quality with xquad-de and clinc150

	// Open opens Sluice's encoder in a mode, with a number of threads.
	Open func(ctx context.Context, precision string, threads int) (Encoder, error)

	Cache     string // where graphs and reference vectors are kept; "" = bench/encode below fetch.Root()
	Python    string // interpreter of the peers; "" = what the set-up made
	Hugot     string // program of the Go peer; "" = what the set-up made
	Reference string // the float64 reference, reference.py; "" = what the set-up left beside the interpreter

	// Callbacks, called as soon as there is something to report; each may be nil.
	Row     func(Row)
	Ratio   func(Ratio)
	Quality func(QualityRow)
	Log     func(text string) // progress
	Note    func(text string) // what also goes into the report: what was left out and why
}

// What the set-up's part "embed-peers" makes, below the cache.
const (
	pythonProgram = "bench/peers/embed-python3"
	hugotProgram  = "bench/peers/hugot"
	referenceFile = "bench/peers/reference.py"
	setUpHint     = "`make bench-embed` sets it up"
)

func optionError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrOption, fmt.Sprintf(format, args...))
}

// check refuses what cannot be run, and fills in defaults.
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
	if o.Rounds < 0 || len(o.Precisions) == 0 || o.Open == nil {
		return optionError("%d rounds, precisions %v", o.Rounds, o.Precisions)
	}
	return harness.InCache(map[*string]string{&o.Cache: "bench/encode", &o.Python: pythonProgram,
		&o.Hugot: hugotProgram, &o.Reference: referenceFile})
}

// session is one call of Run.
type session struct {
	o           Options
	report      *Report
	texts       texts
	model       model
	limits      limits.Limits
	own         []*own
	competitors []*competitor
	temp        string // folder of the peers' programs and vectors
}

// Run measures the chosen workloads. A missing peer or mode is noted and left out. The report holds what was measured
// until an error ended it; it is nil when nothing could begin.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &session{o: o}
	s.report = &Report{
		Time: harness.Now(), CPU: harness.Processor(), System: harness.System(), Threads: o.Threads, Short: o.Short,
		Versions: map[string]string{Own: harness.Version(), "go": runtime.Version()},
	}
	for _, isa := range cpu.Available() {
		s.report.ISAs = append(s.report.ISAs, isa.String())
	}
	if s.temp, err = os.MkdirTemp("", "sluice-bench-embed-*"); err != nil {
		return nil, err
	}
	defer func() {
		for _, c := range s.own {
			err = errors.Join(err, c.Close())
		}
		err = errors.Join(err, os.RemoveAll(s.temp))
	}()
	if err := s.openOwn(ctx); err != nil {
		return nil, err
	}
	processes, err := s.openPeers(ctx)
	if err == nil {
		err = s.workloads(ctx)
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return s.report, errors.Join(err, processes.close())
}

func (s *session) workloads(ctx context.Context) error {
	if err := s.measure(ctx); err != nil {
		return err
	}
	for _, w := range s.o.Workloads {
		if err := ctx.Err(); err != nil {
			return err
		}
		if w == Quality {
			if err := s.quality(ctx); err != nil {
				return fmt.Errorf("%s: %w", w, err)
			}
			continue
		}
		if err := s.load(ctx, s.texts.load(w)); err != nil {
			return fmt.Errorf("%s: %w", w, err)
		}
	}
	return nil
}

// measure measures the limits of the machine.
func (s *session) measure(ctx context.Context) error {
	size := int64(1 << 30)
	if s.o.Short {
		size = 64 << 20
	}
	s.log("measuring the limits of this machine with %d threads", s.o.Threads)
	now, err := limits.Measure(ctx, s.o.Threads, size)
	if errors.Is(err, kernels.ErrUnavailable) {
		s.note("limit_pct is 0: %v", err)
		return nil
	}
	s.limits = s.limits.Best(now)
	s.report.Limits = s.limits
	return err
}

func (s *session) log(format string, args ...any) {
	harness.Say(s.o.Log, format, args...)
}

// note adds a line to the report.
func (s *session) note(format string, args ...any) {
	harness.Note(&s.report.Notes, s.o.Note, format, args...)
}
