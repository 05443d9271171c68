package postings

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// The errors of this package.
var (
	ErrFile = errors.New("postings: the file is damaged, or of another version") // make the index anew
	ErrKind = errors.New("postings: unknown kind of score")
)

// Document is the text of a row with its language (ISO 639-1, "" if it is not known), and what its document is about:
// the words of its title and the like. They count once each beside those of the text, and nothing in its length.
type Document struct{ Text, Language, About string }

// Source reads the documents of rows from up to below to, in order. Those of deleted rows are empty.
type Source func(ctx context.Context, from, to int) ([]Document, error)

// Each runs tasks, perhaps several at a time, as engine.Engine.Parallel does.
type Each func(ctx context.Context, tasks int, fn func(task int) error) error

// run runs tasks, one after the other without each.
func (each Each) run(ctx context.Context, tasks int, fn func(task int) error) error {
	if each != nil && tasks > 1 {
		return each(ctx, tasks, fn)
	}
	for task := range tasks {
		if err := fn(task); err != nil {
			return err
		}
	}
	return nil
}

// Index is the inverted index of rows 0 … Rows()−1 of a base as it is at one time. It is immutable and may be used by
// several goroutines.
type Index struct {
	segments  []*segment
	deleted   func(row int) bool
	live      int     // rows that are not deleted
	gone      bool    // some are
	mean      float64 // terms of a live row's text
	languages []string
	analyzers *analyzers
	kernels   cpu.Kernels
	placed    atomic.Pointer[placed] // nil: not by the blocks of a set
	among     *Statistics            // of the base that the index is a part of; nil: it is a whole one

	mu     sync.Mutex
	counts map[string]int       // live rows that have a term, where some are deleted
	bounds map[boundKey]float64 // of lists
	norms  []float64            // of the rows' tf-idf vectors, once they were needed

	dense      map[boundKey][]*dense // of the terms that were searched for
	denseBytes int

	scans sync.Pool // of *scan: in a small base, to make its buffers takes a third of a search
}

// analyzers are one for each language.
type analyzers struct {
	mu sync.Mutex
	of map[string]*Analyzer
}

func (a *analyzers) get(language string) *Analyzer {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of[language] == nil {
		a.of[language] = For(language)
	}
	return a.of[language]
}

// New is an index without rows. Its searches use the best instruction set of the machine, or the one that SLUICE_ISA
// names.
func New() *Index {
	k, err := cpu.Open(os.Getenv("SLUICE_ISA"))
	if err != nil { // the engine refuses the name; a search has the same result by Go
		k, _ = cpu.Open(cpu.Go.String())
	}
	return &Index{deleted: func(int) bool { return false }, analyzers: &analyzers{of: map[string]*Analyzer{}},
		kernels: k}
}

// groupRows are the rows that one task analyses.
const groupRows = 2048

// With is the index of rows 0 … rows−1, of which x has the first: the others are read from source. deleted tells which
// are deleted; it must not change its answers. x stays as it is, and both share what they have in common.
func (x *Index) With(ctx context.Context, rows int, source Source, deleted func(row int) bool, each Each) (*Index,
	error) {
	have := x.Rows()
	if rows < have {
		return nil, fmt.Errorf("postings: %w: %d rows, the index has %d", kernels.ErrShape, rows, have)
	}
	parts := make([]*segment, (rows-have+groupRows-1)/groupRows)
	analyse := func(task int) error {
		from := have + task*groupRows
		to := min(from+groupRows, rows)
		documents, err := source(ctx, from, to)
		if err == nil && len(documents) != to-from {
			err = fmt.Errorf("postings: %w: %d documents for %d rows", kernels.ErrShape, len(documents), to-from)
		}
		if err != nil {
			return err
		}
		b := newBuilder(from)
		for i, d := range documents {
			if i%64 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			b.add(x.analyzers.get(d.Language), d.Text, d.About)
		}
		parts[task] = b.finish()
		return nil
	}
	if err := each.run(ctx, len(parts), analyse); err != nil {
		return nil, err
	}
	n := &Index{segments: slices.Clone(x.segments), deleted: deleted, analyzers: x.analyzers, kernels: x.kernels}
	n.placed.Store(x.placed.Load())
	if len(parts) > 0 {
		n.segments = append(n.segments, merge(parts))
	}
	n.tidy()
	n.count()
	return n, nil
}

// tidy merges segments so that each is less than half of the one before: there are few, and a row is moved seldom.
func (x *Index) tidy() {
	for n := len(x.segments); n > 1 && 2*x.segments[n-1].rows() >= x.segments[n-2].rows(); n = len(x.segments) {
		x.segments = append(x.segments[:n-2:n-2], merge(x.segments[n-2:]))
	}
}

// count counts the live rows, their terms and languages.
func (x *Index) count() {
	s, rows := x.Statistics(nil), 0
	for _, g := range x.segments {
		rows += g.rows()
	}
	x.gone = s.Live < rows
	x.take(s)
}

// languageShare of the rows must be in a language for queries to be analysed by it where their own is not known.
const languageShare = .02

// Rows is the number of rows, with deleted ones.
func (x *Index) Rows() int {
	if len(x.segments) == 0 {
		return 0
	}
	last := x.segments[len(x.segments)-1]
	return last.first + last.rows()
}

// lists returns the lists of a term, one for each segment that contains it.
func (x *Index) lists(term string) (lists []list) {
	for _, s := range x.segments {
		if i, ok := s.find(term); ok {
			lists = append(lists, s.list(i))
		}
	}
	return lists
}

// having counts the live rows that contain a term.
func (x *Index) having(term string, lists []list) (n int) {
	if x.among != nil {
		return x.among.Terms[term]
	}
	for _, l := range lists {
		n += len(l.at)
	}
	if !x.gone || n == 0 {
		return n
	}
	x.mu.Lock()
	count, ok := x.counts[term]
	x.mu.Unlock()
	if ok {
		return count
	}
	for _, l := range lists {
		for _, at := range l.at {
			if x.deleted(l.seg.first + int(at)) {
				n--
			}
		}
	}
	x.mu.Lock()
	if x.counts == nil {
		x.counts = map[string]int{}
	}
	x.counts[term] = n
	x.mu.Unlock()
	return n
}
