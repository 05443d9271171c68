package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/index"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// The errors of prepared sets.
var (
	// ErrClosed: a set that is used after Close.
	ErrClosed = errors.New("the prepared set is closed")
	// ErrSetFile: a file that is not a saved set of this version, or is damaged.
	ErrSetFile = index.ErrFile
	// ErrSetVectors: a saved set that belongs to other vectors.
	ErrSetVectors = index.ErrVectors
)

// SetOptions say how a set is prepared. The zero value is a sensible default.
type SetOptions struct {
	// for sets that are calibrated or multiplied rather than searched: preparing takes a fraction of the time
	NoIndex  bool
	Clusters int    // of the index: groups of similar rows, searched nearest first; 0 = √rows, at most 1,024
	Seed     uint64 // of the samples that rotation and clusters are learned from; no result depends on it
	// Parts is the part that each of the rows belongs to, numbered from 0; nil: they are one part. Searches of a part
	// alone (Only) then read no row of another one. No result depends on it.
	Parts    []int32
	MemLimit int64 // bytes of packed copies that are kept for later operations; 0 = the engine's limit
	// ScanDims is how many coordinates of a rotation a GPU reads first where it searches for few queries, in codes of
	// eight bits; 0: about a third of all; the dimension or more: all of them.
	ScanDims int
	// Digest names the first rows of the vectors in the files of Save and Load, instead of a digest that reads them
	// all: for who keeps checksums of his vectors. Load then takes more rows than the file has, and appends them.
	Digest func(ctx context.Context, rows int) ([32]byte, error)
}

// SetStats describe a set.
type SetStats struct {
	Rows, Deleted int // rows ever added, and how many of them are deleted
	Unclustered   int // rows appended after the clusters and the rotation were learned: valid, found later
	Plain         int // rows without codes, which every query reads in full
	Clusters      int // groups of similar rows
	Chunks        int // pieces of at most 1,024 rows that are read or skipped together
	Dim           int
	Bytes         int64  // of the index, without the caller's vectors
	Kernel        string // of the scan
	Reason        string // why there are no codes, or ""
	Choice        string // which device the search for one query speaks for, and why
	Packed        int64  // bytes of packed copies that are kept, and of copies of the rows on GPUs
	OnGPU         int64  // bytes of them that lie in the memory of each GPU
}

// Set is a set of vectors that was made ready once, to be searched and calibrated many times: checked, with norms
// and an index, and with packed copies that Distribution and BoundedMatrix leave there. Vectors names it in every
// operation of the engine that made it; results are those of plain vectors, bit for bit, but for AnyAbove's witness,
// which is any row above instead of the lowest.
//
// The index answers TopK, Max and AnyAbove in the set's metric while reading a fraction of the rows: low-precision
// codes bound every score from above (from below for l2), and what the bound cannot rule out gets its canonical score.
//
// Rows are numbered in the order of adding, from 0; a deleted row's number is not used again. Vectors are kept by
// reference and must not change while the set is in use. All methods may be called at the same time.
type Set struct {
	e        *Engine
	limit    int64
	scanDims int

	write  sync.Mutex // of those who change the set
	x      *index.Index
	rent   rent
	mu     sync.Mutex // of what follows
	now    *snapshot
	closed bool
}

// Prepare makes a set. An empty v is fine: Append can come later. The metric is that of the index; other metrics
// work, without it.
func (e *Engine) Prepare(ctx context.Context, v Vectors, metric kernels.Metric, o SetOptions) (*Set, error) {
	if err := fill(ctx, &v); err != nil {
		return nil, err
	}
	v.Set = nil
	x, err := index.New(ctx, &e.r, v, metric, o.index())
	if err != nil {
		return nil, err
	}
	return e.newSet(x, o)
}

// ScanDims is what SetOptions.ScanDims 0 stands for with vectors of that dimension.
func ScanDims(dim int) int { return device.ScanHead(dim) }

func (o SetOptions) index() index.Options {
	return index.Options{Clusters: o.Clusters, Seed: o.Seed, Plain: o.NoIndex, Parts: o.Parts,
		Digest: o.Digest}
}

func (e *Engine) newSet(x *index.Index, o SetOptions) (*Set, error) {
	if o.MemLimit < 0 || o.ScanDims < 0 {
		return nil, fmt.Errorf("engine: a set with a memory limit of %d and %d coordinates that are read first: %w",
			o.MemLimit, o.ScanDims, kernels.ErrArgument)
	}
	s := &Set{e: e, limit: o.MemLimit, scanDims: o.ScanDims, x: x}
	if s.limit == 0 {
		s.limit = e.r.MemLimit
	}
	s.now = s.snapshot(nil)
	return s, nil
}

// snapshot is the set as it is; s.write is held, or nobody else knows s. Rows that the one before had as well keep what
// devices hold of them.
func (s *Set) snapshot(before *snapshot) *snapshot {
	m := &snapshot{set: s, x: s.x.Freeze()}
	m.size, m.dim = m.x.Shape()
	m.deleted = m.x.Describe().Deleted
	for _, g := range m.x.Groups() {
		m.parts = append(m.parts, before.part(g, s.limit))
	}
	if len(m.parts) == 1 {
		m.kept = m.parts[0].kept
	} else {
		m.kept = device.NewKept(s.limit)
	}
	return m
}

// change runs fn, which changes the index, and lets the next Vectors show it.
func (s *Set) change(fn func() error) error {
	s.write.Lock()
	defer s.write.Unlock()
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return fmt.Errorf("engine: %w", ErrClosed)
	}
	if err := fn(); err != nil {
		return err
	}
	next := s.snapshot(s.now)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.retire(next)
	if s.now = next; s.closed {
		next.retire(nil)
	}
	return nil
}

// Append adds rows behind the others, by reference. They keep all answers exact, but lie in chunks of their own and use
// the rotation learned before: when Unclustered is a large share of Rows, a new set is faster. Non-finite values are
// refused, and then nothing is added.
func (s *Set) Append(ctx context.Context, v Vectors) error {
	if err := fill(ctx, &v); err != nil {
		return err
	}
	v.Set = nil
	return s.change(func() error { return s.x.Append(ctx, v) })
}

// Delete takes rows out of the results of later Vectors: all of them, or none after an error. Deleting one again does
// nothing.
func (s *Set) Delete(rows ...int) error {
	return s.change(func() error { return s.x.Delete(rows...) })
}

// Vectors are a snapshot of the rows, for the engine's operations: rows that are appended or deleted later do not show.
// Data is nil where the rows were not added at once. Deleted rows are not found by TopK, Max and AnyAbove, count
// nowhere in Distribution, and have NaN as scores in matrices.
func (s *Set) Vectors() Vectors {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.now
	v := Vectors{Rows: m.size, Dim: m.dim, Set: m}
	if one, ok := m.x.One(); ok {
		v.Data, v.Stride = one.Data, one.Stride
	}
	return v
}

// Metric is that of the index.
func (s *Set) Metric() kernels.Metric { return s.x.Metric() }

// Describe tells what the set holds and runs on.
func (s *Set) Describe() SetStats {
	d := s.x.Describe()
	s.mu.Lock()
	defer s.mu.Unlock()
	return SetStats{
		Rows: d.Rows, Deleted: d.Deleted, Unclustered: d.Unclustered, Plain: d.Plain, Clusters: d.Clusters,
		Chunks: d.Chunks,
		Dim:    d.Dim, Bytes: d.Bytes, Kernel: d.Kernel, Reason: d.Reason, Packed: s.now.bytes(nil),
		OnGPU: s.now.onGPU(), Choice: s.e.choiceFor(s.now),
	}
}

// Only are those rows of a prepared set's Vectors alone that are given, ascending, for TopK, Max, AnyAbove and the same
// of many queries: they find no other row, and read only chunks that have one of them. Rows keep their numbers, biases
// are those of all rows. Other operations refuse them with kernels.ErrArgument, which is also the error for rows that
// are not there. ok is false where v has no index: the rows would be read in full, and copying them is faster.
func Only(ctx context.Context, v Vectors, rows []int) (some Vectors, ok bool, err error) {
	if err := use(&v); err != nil {
		return some, false, err
	}
	m := snapshotOf(v)
	if m == nil || !m.x.Coded() {
		return some, false, nil
	}
	x, err := m.x.Select(ctx, rows)
	if err != nil {
		return some, false, err
	}
	return Vectors{Rows: m.size, Dim: m.dim, Set: &snapshot{set: m.set, x: x, size: m.size, dim: m.dim,
		selected: true}}, true, nil
}

// Blocks lists all rows in blocks of at most 1,024, near rows together. These are the blocks whose biases a search
// reads: who computes biases from lists of rows (postings) does so fastest if those are in this order. A block with a
// number keeps it and its rows for good. Those without, and rows appended later, join new ones as more rows come.
func (s *Set) Blocks() []RowBlock { return s.x.Blocks() }

// Close frees what the set holds; operations that run go on to their end. Every later use of the set or of its Vectors
// is ErrClosed. Closing again does nothing.
func (s *Set) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		s.now.retire(nil)
	}
}

// snapshot is a set as it was when Vectors was called.
type snapshot struct {
	set                *Set
	x                  *index.Index
	size, dim, deleted int
	selected           bool         // by Only
	kept               *device.Kept // of all rows
	parts              []*part      // the rows as they were added

	mu      sync.Mutex
	rows    cpu.Rows  // all, one behind the other; N = 0 until someone asks
	live    *snapshot // without the deleted ones
	retired bool
	others  [kernels.L2 + 1]*index.Index
}

// retire frees what later operations on the same snapshot would have found, but for what the next one has, too.
func (m *snapshot) retire(next *snapshot) {
	for _, p := range m.parts {
		if next == nil || !slices.Contains(next.parts, p) {
			p.kept.Close()
		}
	}
	if len(m.parts) != 1 {
		m.kept.Close()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.retired = true; m.live != nil {
		m.live.kept.Close()
	}
}

// gather lays all rows one behind the other where they were not added at once.
func (m *snapshot) gather(ctx context.Context) (cpu.Rows, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.size == 0 || m.rows.N > 0 {
		return m.rows, nil
	}
	rows, ok := m.x.One()
	if !ok {
		var err error
		if rows, err = m.x.Gather(ctx, false); err != nil {
			return rows, err
		}
	}
	m.rows = rows
	return rows, nil
}

// PreparedRows implements device.Prepared.
func (m *snapshot) PreparedRows() (cpu.Rows, *device.Kept) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rows, m.kept
}

// index is the one that searches in that metric.
func (m *snapshot) index(metric kernels.Metric) *index.Index {
	if metric == m.x.Metric() {
		return m.x
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.others[metric] == nil {
		m.others[metric] = m.x.For(metric)
	}
	return m.others[metric]
}

// use checks vectors of prepared sets, if they are such, at the begin of an operation.
func use(all ...*Vectors) error {
	for _, v := range all {
		m := snapshotOf(*v)
		if m == nil {
			v.Set = nil
			continue
		}
		m.set.mu.Lock()
		closed := m.set.closed
		m.set.mu.Unlock()
		if closed {
			return fmt.Errorf("engine: %w", ErrClosed)
		}
		if v.Rows == m.size && (v.Rows == 0 || v.Dim == m.dim) {
			continue
		}
		if v.Data == nil {
			return fmt.Errorf("engine: %w: %d rows of dimension %d name a prepared set of %d rows of dimension %d",
				kernels.ErrShape, v.Rows, v.Dim, m.size, m.dim)
		}
		v.Set = nil // a part of them, as plain vectors
	}
	return nil
}

// fill is use by operations that read rows: those that were not added at once are gathered.
func fill(ctx context.Context, all ...*Vectors) error {
	if err := use(all...); err != nil {
		return err
	}
	for _, v := range all {
		m := snapshotOf(*v)
		if m == nil || m.size == 0 {
			continue
		}
		if m.selected {
			return fmt.Errorf("engine: %w: some rows of a prepared set can only be searched", kernels.ErrArgument)
		}
		rows, err := m.gather(ctx)
		if err != nil {
			return err
		}
		if v.Data == nil {
			v.Data, v.Stride = rows.Data, rows.Stride
		}
	}
	return nil
}

// snapshotOf is the snapshot of a set that v names, or nil.
func snapshotOf(v Vectors) *snapshot {
	m, _ := v.Set.(*snapshot)
	return m
}

// searched is the index that finds rows of c in that metric; nil where the engine reads all rows on its device.
func searched(c Vectors, metric kernels.Metric) *index.Index {
	m := snapshotOf(c)
	if m == nil || m.size == 0 || metric > kernels.L2 {
		return nil
	}
	if m.selected || m.deleted > 0 || metric == m.x.Metric() && m.x.Coded() {
		return m.index(metric)
	}
	return nil
}
