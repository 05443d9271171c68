package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/bench/harness"
	"github.com/sluice-rag/sluice/bench/limits"
	"github.com/sluice-rag/sluice/bench/peers"
	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/tiles"
)

// The errors of Options.
var (
	ErrWorkload = errors.New("bench: unknown workload")
	ErrOption   = errors.New("bench: bad option")
)

// Workloads returns the values of Options.Workload other than "all", which excludes memory and incremental because they
// take long.
func Workloads() []string {
	return []string{"w1", "w2", "w3", "w4", "cover", "matrix", memory, incremental}
}

const memory = "memory"

// Options of Compute.
type Options struct {
	Workload string   // one of Workloads, or "all"
	Threads  int      // of every competitor; 0 = all cores
	ISA      string   // instruction set of Sluice's competitors and of the peers; "" = all that are of interest
	Rounds   int      // runs of every competitor; 0 = each benchmark's own number
	Short    bool     // tiny shapes: to see that it works, not to measure
	Peers    []string // of Peers(); nil = none
	Data     string   // folder with squad16 and clinc150, for real vectors

	Cache   string // where data sets and what is known about them are kept; "" = bench below fetch.Root()
	Python  string // interpreter of the peers' environment; "" = what the set-up made
	GoPeers string // program of the Go peers; "" = what the set-up made

	// Embed makes the real vectors; nil leaves their benchmarks out.
	Embed func(ctx context.Context, texts []string, role embed.Role) (*embed.Embeddings, error)

	// Callbacks, called as soon as there is something to report; each may be nil.
	Row   func(Row)
	Ratio func(Ratio)
	Log   func(text string) // progress
	Note  func(text string) // what also goes into the report: what was left out and why, shares, counts
}

// session is one call of Compute.
type session struct {
	o         Options
	cache     string
	reference reference
	limits    limits.Limits
	report    *Report
	blas      map[string][]string // environment that chooses OpenBLAS's kernels, by library
	scripts   string              // folder of the unpacked Python files, if they are unpacked
}

// Compute runs the chosen workloads. The report holds what was measured until an error ended it.
func Compute(ctx context.Context, o Options) (*Report, error) {
	s, err := newSession(o)
	if err != nil {
		return nil, err
	}
	defer func() {
		if s.scripts != "" {
			_ = os.RemoveAll(s.scripts) // a temporary folder
		}
	}()
	return s.report, s.compute(ctx)
}

func newSession(o Options) (*session, error) {
	if o.Workload != "all" && !slices.Contains(Workloads(), o.Workload) {
		return nil, fmt.Errorf("%w: %q (there are %s, all)", ErrWorkload, o.Workload, strings.Join(Workloads(), ", "))
	}
	if o.Threads < 0 || o.Rounds < 0 {
		return nil, fmt.Errorf("%w: threads %d, rounds %d: none may be negative", ErrOption, o.Threads, o.Rounds)
	}
	err := harness.Known("peer", o.Peers, Peers())
	if err == nil {
		o.Threads, err = harness.Threads(o.Threads)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOption, err)
	}
	if o.ISA != "" {
		if _, err := cpu.Open(o.ISA); err != nil {
			return nil, fmt.Errorf("bench: %w", err)
		}
	}
	if err := harness.InCache(map[*string]string{&o.Cache: "bench", &o.Python: pythonProgram,
		&o.GoPeers: goProgram}); err != nil {
		return nil, err
	}
	s := &session{o: o, cache: o.Cache, blas: map[string][]string{}}
	if s.reference, err = newReference(o.Threads); err != nil {
		return nil, err
	}
	s.report = newReport(o)
	if held := peers.Held(o.ISA, o.Threads); held != nil && len(o.Peers) > 0 {
		s.note("the peers are held to %s, too: %s; the Go libraries choose for themselves", o.ISA,
			strings.Join(held, ", "))
		if unheld := peers.Unheld(o.ISA); unheld != nil {
			s.note("these take no part, since no setting holds them: %s", strings.Join(unheld, ", "))
		}
	}
	return s, nil
}

func (s *session) compute(ctx context.Context) error {
	for _, step := range []struct {
		workloads []string // that share their data
		run       func(ctx context.Context, chosen []string) error
	}{
		{[]string{"w1"}, s.w1}, {[]string{"w2"}, s.w2}, {[]string{"w3", "w4", "cover"}, s.searches},
		{[]string{"matrix"}, s.matrix},
		{[]string{memory}, s.memory},
		{[]string{incremental}, s.incremental},
	} {
		chosen := slices.DeleteFunc(step.workloads, func(w string) bool {
			return s.o.Workload != w && (s.o.Workload != "all" || w == memory || w == incremental)
		})
		if len(chosen) == 0 {
			continue
		}
		if err := s.measure(ctx); err != nil {
			return err
		}
		if err := step.run(ctx, chosen); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(chosen, ", "), err)
		}
	}
	return nil
}

// measure measures the limits again before each workload and keeps the highest: another process can only
// make a measurement smaller.
func (s *session) measure(ctx context.Context) error {
	size := int64(1536 << 20)
	if s.o.Short {
		size = 64 << 20
	}
	s.log("measuring the limits of this machine with %d threads", s.o.Threads)
	now, err := limits.Measure(ctx, s.o.Threads, size)
	if errors.Is(err, kernels.ErrUnavailable) {
		if len(s.report.Rows) == 0 {
			s.note("limit_pct is 0: %v", err)
		}
		return nil
	}
	s.limits = s.limits.Best(now)
	s.report.Limits = s.limits
	return err
}

// rounds is how many rounds a benchmark has.
func (s *session) rounds(usual int) int {
	switch {
	case s.o.Rounds > 0:
		return s.o.Rounds
	case s.o.Short:
		return 2
	}
	return usual
}

// variant is an engine to measure: an instruction set and the number format that its tiles multiply in.
type variant struct {
	engine *engine.Engine
	isa    string
	dtype  kernels.DType
	free   bool // the engine chooses the format
}

// variants returns the instruction sets to measure: for each type the best set that has it, and what machines
// without AMX run: AVX-512 and AVX2 for float32, VNNI for 8 bits. If Options.ISA is set, it is the only one.
func (s *session) variants(types ...kernels.DType) (out []variant, err error) {
	for _, t := range types {
		var found []cpu.ISA
		for _, name := range s.isas() {
			k, err := cpu.Open(name)
			if err != nil {
				return nil, err
			}
			if !tiles.Has(k, t) || len(found) > 0 && !alsoMeasured(t, found[0], k.ISA()) {
				continue
			}
			found = append(found, k.ISA())
			e, err := s.engine(name, 0)
			if err != nil {
				return nil, err
			}
			out = append(out, variant{engine: e, isa: name, dtype: t})
		}
	}
	return out, nil
}

// engine returns an engine with an instruction set. The engine chooses the best one itself, so that Describe has its
// reason.
func (s *session) engine(isa string, memLimit int64) (*engine.Engine, error) {
	o := engine.Options{Threads: s.o.Threads, ISA: isa, MemLimit: memLimit, Device: engine.DeviceCPU}
	if s.o.ISA == "" && os.Getenv("SLUICE_ISA") == "" && isa == cpu.Available()[0].String() {
		o.ISA = ""
	}
	return engine.New(o)
}

// alsoMeasured reports whether an instruction set is measured in addition to the best one for a type: if other machines
// have only that set, and its kernels differ.
func alsoMeasured(t kernels.DType, best, isa cpu.ISA) bool {
	switch isa {
	case cpu.AVX512VNNI:
		return t == kernels.I8
	case cpu.AVX512:
		return t == kernels.F32 && best == cpu.AMX // with VNNI, float32 has the same kernels
	case cpu.AVXVNNI:
		return t == kernels.I16
	case cpu.AVX2:
		return t == kernels.F32 || t == kernels.I16
	}
	return false
}

// isas returns the instruction sets of this machine, best first.
func (s *session) isas() (names []string) {
	if s.o.ISA != "" {
		return []string{s.o.ISA}
	}
	for _, isa := range cpu.Available() {
		names = append(names, isa.String())
	}
	return names
}

// own returns the row of a competitor of Sluice.
func (v variant) own(mode string) Row {
	return Row{Impl: Own, ISA: v.isa, DType: v.dtype.String(), Mode: mode}
}

// describe joins the engine's descriptions of itself and of one operation.
func (v variant) describe(operation ...string) string {
	d := v.engine.Describe()
	text := []string{d.Device + " " + d.Kernel}
	for _, o := range append(operation, d.Reason) {
		if o != "" {
			text = append(text, o)
		}
	}
	return strings.Join(text, "; ")
}

func (s *session) log(format string, args ...any) {
	harness.Say(s.o.Log, format, args...)
}

// note adds a line to the report.
func (s *session) note(format string, args ...any) {
	harness.Note(&s.report.Notes, s.o.Note, format, args...)
}

func (s *session) row(r Row) {
	s.report.Rows = append(s.report.Rows, r)
	if s.o.Row != nil {
		s.o.Row(r)
	}
}

func (s *session) ratio(r Ratio) {
	s.report.Ratios = append(s.report.Ratios, r)
	if s.o.Ratio != nil {
		s.o.Ratio(r)
	}
}

func (s *session) progress(b *benchmark, round int) {
	if round == b.rounds || round&(round-1) == 0 { // 1, 2, 4, …
		s.log("%s %s: round %d of %d", b.workload, b.shape, round, b.rounds)
	}
}
