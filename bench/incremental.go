package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/bench/harness"
	"github.com/sluice-rag/sluice/embed/identity"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/gate"
	counted "github.com/sluice-rag/sluice/rag/pairs"
)

const incremental = "incremental"

// incremental compares a calibration after 1 % of the chunks were added or removed with one that counts all pairs:
// through gate.Calibrate and Save, as in `sluice calibrate`, with the state read from disk and written back. Embedding
// is excluded. Each context has one pseudo-query. Every result must equal that of the full run, bit for bit.
func (s *session) incremental(ctx context.Context, _ []string) (err error) {
	n, rounds := 100_000, s.rounds(2)
	if s.o.Short {
		n = 1000
	}
	m, err := s.newCalibrations(ctx, n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	more := n + n/100
	b := &benchmark{
		workload: incremental, shape: shape(more, more, m.p.contexts.Dim), pairs: float64(more) * float64(more-1),
		rounds: rounds,
		cold:   true, operations: cosineWork * float64(more) * float64(more) * float64(m.p.contexts.Dim),
	}
	kept, shifted := filepath.Join(m.dir, "kept"), filepath.Join(m.dir, "shifted")
	for _, x := range []struct {
		from              string
		contexts, queries int
		mode              string
	}{
		{"", more, more, "full"},
		{kept, more, more, "1 % of chunks and questions more"},
		{kept, more, n, "1 % of chunks more"},
		{kept, n - n/100, n - n/100, "1 % of chunks and questions less"},
		{shifted, more, more, "brackets missed"},
	} {
		b.competitors = append(b.competitors, m.competitor(x.mode, x.from, x.contexts, x.queries))
	}
	s.log("%s: counting %d × %d pairs and keeping them, with brackets that hold the quantiles and with others",
		incremental, n, n)
	for dir, e := range map[string]engine.Interface{kept: m.engine, shifted: shiftedEngine{m.engine}} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		if _, _, err := m.calibrate(ctx, e, dir, n, n); err != nil {
			return err
		}
	}
	return s.run(ctx, b)
}

// calibrations holds what the competitors of incremental share.
type calibrations struct {
	p      *pairs
	engine *engine.Engine
	isa    string
	dir    string
	limit  int64
	full   map[[2]int]*gate.Calibration // results of runs that keep no state, by contexts and queries
}

func (s *session) newCalibrations(ctx context.Context, n int) (*calibrations, error) {
	p, err := s.mixturePairs(ctx, seedW2, n+n/100, 1, 384)
	if err != nil {
		return nil, err
	}
	m := &calibrations{p: p, isa: s.isas()[0], full: map[[2]int]*gate.Calibration{}}
	if s.o.Short {
		m.limit = 1 << 20 // otherwise all pairs are kept
	}
	if m.engine, err = s.engine(m.isa, 0); err != nil {
		return nil, errors.Join(err, p.close())
	}
	if err := os.MkdirAll(s.cache, 0o755); err != nil {
		return nil, errors.Join(err, p.close())
	}
	if m.dir, err = os.MkdirTemp(s.cache, "incremental-*"); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return m, nil
}

func (m *calibrations) close() error { return errors.Join(m.p.close(), os.RemoveAll(m.dir)) }

// calibrate makes and saves the calibration of the first contexts and queries. The state is in dir; "": no state is
// kept.
func (m *calibrations) calibrate(ctx context.Context, e engine.Interface, dir string, contexts, queries int) (
	c *gate.Calibration, report counted.Report, err error,
) {
	in := gate.Input{
		Contexts: m.p.contexts.Vectors, Queries: m.p.queries.Vectors, Owner: m.p.owner()[:queries],
		ContextIDs: make([]string, contexts), TextDigests: make([]string, contexts),
		Encoder: identity.Encoder{Name: "mixture", Digest: "mixture", Dim: m.p.contexts.Dim}, Holdout: .2, Seed: 1,
		Counted: func(r counted.Report) { report = r },
	}
	in.Contexts.Rows, in.Queries.Rows = contexts, queries
	rows, names := make([]int64, contexts), make([][32]byte, queries)
	for i := range rows {
		rows[i], in.ContextIDs[i], in.TextDigests[i] = int64(i), fmt.Sprintf("c%d", i),
			fmt.Sprintf("%064x", i*2654435761)
	}
	for i := range names {
		names[i] = questionName(i)
	}
	if dir != "" {
		in.Keep = counted.Keep{File: filepath.Join(dir, "state"), Limit: m.limit, ContextRows: rows, QueryNames: names,
			Gone: m.gone}
	}
	c, positive, err := gate.Calibrate(ctx, e, in)
	if err != nil {
		return nil, report, err
	}
	return c, report, c.Save(filepath.Join(m.dir, "bench.cal.json"), positive)
}

// gone returns the vectors of contexts and queries that were removed; they are still in the files.
func (m *calibrations) gone(_ context.Context, contexts []int64, queries [][32]byte) (c, q engine.Vectors, err error) {
	c.Dim, q.Dim = m.p.contexts.Dim, m.p.contexts.Dim
	row := make(map[[32]byte]int, m.p.queries.Rows)
	for i := range m.p.queries.Rows {
		row[questionName(i)] = i
	}
	for _, i := range contexts {
		c.Data, c.Rows = append(c.Data, m.p.contexts.row(int(i))...), c.Rows+1
	}
	for _, name := range queries {
		q.Data, q.Rows = append(q.Data, m.p.queries.row(row[name])...), q.Rows+1
	}
	return c, q, nil
}

func questionName(i int) (name [32]byte) {
	binary.LittleEndian.PutUint64(name[:], uint64(i))
	return name
}

// competitor calibrates from the state in a folder, which is not changed; from is "" if there is no state.
func (m *calibrations) competitor(mode, from string, contexts, queries int) *competitor {
	var last *gate.Calibration
	var report counted.Report
	var cpu []time.Duration
	work := filepath.Join(m.dir, "work")
	return &competitor{
		Row: Row{Impl: Own, ISA: m.isa, Mode: mode, DType: kernels.F32.String()}, kind: kernels.F32,
		run: func(ctx context.Context, _ int) ([]time.Duration, error) {
			if err := copyState(from, work); err != nil {
				return nil, err
			}
			before := processorTime()
			times, err := timeIt(func() (err error) {
				last, report, err = m.calibrate(ctx, m.engine, work, contexts, queries)
				return err
			})
			cpu = append(cpu, processorTime()-before)
			return times, err
		},
		check: func(ctx context.Context) (float64, error) {
			at := [2]int{contexts, queries}
			if m.full[at] == nil {
				want, _, err := m.calibrate(ctx, m.engine, "", contexts, queries)
				if err != nil {
					return 0, err
				}
				m.full[at] = want
			}
			return differences(m.full[at], last), nil
		},
		choice: func() string {
			slices.Sort(cpu)
			text := fmt.Sprintf("CPU %.4g s, %d of %d pairs counted, state %.4g MB", cpu[len(cpu)/2].Seconds(),
				report.Pairs,
				report.Of, float64(report.StateBytes)/1e6)
			if report.Reason != "" {
				text += "; all pairs: " + report.Reason
			}
			return text
		},
	}
}

// differences counts the fields of an artifact that differ from the wanted ones. Bits are compared, except for the
// mean, whose bounds allow 1e-12, and for the histogram and separation, which depend on the cells of the brackets.
func differences(want, got *gate.Calibration) (n float64) {
	a, b := *want, *got
	for _, c := range []*gate.Calibration{&a, &b} {
		c.Created, c.NegativeHistogram, c.PositiveFile, c.MaximumFile, c.OtherFile, c.OwnerFile = time.Time{}, nil, "",
			"", "", ""
		c.GeneralFile = ""
	}
	if math.Abs(a.Negative.Mean-b.Negative.Mean) <= 1e-12 {
		a.Negative.Mean = b.Negative.Mean
	}
	if math.Abs(a.Separation-b.Separation) <= 1e-4 {
		a.Separation = b.Separation
	}
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		if !reflect.DeepEqual(field(x, i), field(y, i)) {
			n++
		}
	}
	if !slices.Equal(a.MaximumScores(), b.MaximumScores()) {
		n++
	}
	return n
}

// field returns the value of an exported field.
func field(v reflect.Value, i int) any {
	if f := v.Field(i); f.CanInterface() {
		return f.Interface()
	}
	return nil
}

// copyState creates a folder with the state of another one. Parts are linked, because they never change.
func copyState(from, to string) error {
	if err := errors.Join(os.RemoveAll(to), os.MkdirAll(to, 0o700)); err != nil || from == "" {
		return err
	}
	files, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := os.Link(filepath.Join(from, f.Name()), filepath.Join(to, f.Name())); err != nil {
			return err
		}
	}
	return nil
}

// shiftedEngine keeps parts whose brackets do not contain the quantiles.
type shiftedEngine struct{ *engine.Engine }

// KeepDistribution implements pairs.Engine.
func (e shiftedEngine) KeepDistribution(ctx context.Context, in engine.DistributionInput, limit int64) (
	*engine.Distribution, *engine.Brackets, *engine.Part, error,
) {
	d, b, _, err := e.Engine.KeepDistribution(ctx, in, limit)
	if err != nil {
		return nil, nil, nil, err
	}
	for i := range b.Ranges {
		width := b.Ranges[i][1] - b.Ranges[i][0]
		b.Ranges[i] = [2]float64{b.Ranges[i][0] + width, b.Ranges[i][1] + width}
	}
	p, err := e.DistributionPart(ctx, in, b,
		engine.Block{Contexts: [2]int{0, in.Contexts.Rows}, Queries: [2]int{0, in.Queries.Rows}})
	return d, b, p, err
}

// incrementalTable shows the cost of a change and of a full run.
func incrementalTable(w io.Writer, rows []Row) {
	fmt.Fprintf(w,
		"## %s\n\nA calibration of %s pairs on %s after changes, beside one that counts all pairs; embedding left "+
			"out. ",
		incremental, rows[0].Shape, rows[0].ISA)
	fmt.Fprint(w, "An error of 0 means that the artifact has the bits of the full run's.\n\n")
	fmt.Fprint(w, harness.TableHead("change", "seconds", "best", "% of full", "error", "how"))
	for _, x := range rows {
		how, _, _ := strings.Cut(x.Choice, "\n")
		fmt.Fprintf(w, "| %s | %.4g | %.4g | %.3g | %.2g | %s |\n", x.Mode, x.MedianMS/1000, x.MinMS/1000,
			100*x.MedianMS/rows[0].MedianMS, x.MaxError, how)
	}
	fmt.Fprintln(w)
}
