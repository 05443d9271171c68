package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/index"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// The errors of prepared sets.
var (
	// ErrClosed is returned when a set is used after Close.
	ErrClosed = errors.New("the prepared set is closed")
	// ErrSetFile is returned for a file that is damaged or is not a saved set of this version.
	ErrSetFile = index.ErrFile
	// ErrSetVectors is returned for a saved set that belongs to other vectors.
	ErrSetVectors = index.ErrVectors
)

// SetOptions says how a set is prepared. The zero value is a sensible default.
type SetOptions struct {
	// NoIndex is for sets that are calibrated or multiplied rather than searched: preparing takes a fraction of the
	// time.
	NoIndex  bool
	Clusters int    // of the index: groups of similar rows, searched nearest first; 0 = √rows, at most 1,024
	Seed     uint64 // of the samples that rotation and clusters are learned from; no result depends on it
	// Parts is the part that each of the rows belongs to, numbered from 0; nil: all rows are in one part. A search
	// restricted to one part (Only) then reads no row of another. No result depends on it.
	Parts    []int32
	MemLimit int64 // bytes of packed copies that are kept for later operations; 0 = the engine's limit
	// ScanDims is the number of coordinates of a rotation that a GPU reads first in a search for few queries, in codes
	// of eight bits; 0: about a third of all; the dimension or more: all.
	ScanDims int
	// Digest returns a digest that identifies the first rows of the vectors in the files of Save and Load, instead of
	// one computed from all rows: for callers that have checksums of their vectors. Load then accepts more rows than
	// the file has, and appends them.
	Digest func(ctx context.Context, rows int) ([32]byte, error)
}

// SetStats describes a set.
type SetStats struct {
	Rows, Deleted int // rows ever added, and how many of them are deleted
	Unclustered   int // rows appended after the clusters and the rotation were learned: valid, found later
	Plain         int // rows without codes, which every query reads completely
	Clusters      int // groups of similar rows
	Chunks        int // pieces of at most 1,024 rows that are read or skipped together
	Dim           int
	Bytes         int64  // of the index, without the caller's vectors
	Kernel        string // of the scan
	Reason        string // why there are no codes, or ""
	Choice        string // device that a search for one query would use, and why
	Packed        int64  // bytes of packed copies that are kept, and of copies of the rows on GPUs
	OnGPU         int64  // bytes of these in the memory of each GPU
}

// Set is a set of vectors that is prepared once, to be searched and calibrated many times: it is checked, has norms
// and an index, and keeps the packed copies that Distribution and BoundedMatrix make. Vectors refers to it in every
// operation of the engine that made it. Results equal those of plain vectors, bit for bit, except for AnyAbove's
// witness, which is any row above instead of the lowest.
//
// The index answers TopK, Max and AnyAbove in the set's metric while reading a fraction of the rows: low-precision
// codes bound every score from above (from below for l2), and rows that the bound cannot rule out get their canonical
// score.
//
// Rows are numbered in the order of adding, from 0; a deleted row's number is not used again. Vectors are kept by
// reference and must not change while the set is in use. All methods may be called concurrently.
type Set struct {
	e        *Engine
	limit    int64
	scanDims int

	write  sync.Mutex // held by calls that change the set
	x      *index.Index
	rent   rent
	mu     sync.Mutex // protects the fields below
	now    *snapshot
	closed bool
}

// Prepare makes a set. An empty v is allowed: rows can be appended later. metric is the metric of the index;
// operations with another metric work, without the index.
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

// ScanDims returns the default of SetOptions.ScanDims for vectors of the given dimension.
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

// snapshot returns the current set; s.write is held, or s is not shared yet. Rows that were in the previous snapshot
// keep their copies on devices.
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

// change runs fn, which changes the index, and makes the change visible to the next call of Vectors.
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

// Append adds rows after the existing ones, by reference. All results stay exact, but appended rows lie in chunks of
// their own and use the rotation learned earlier: when Unclustered is a large share of Rows, a new set is faster. If a
// value is not finite, an error is returned and nothing is added.
func (s *Set) Append(ctx context.Context, v Vectors) error {
	if err := fill(ctx, &v); err != nil {
		return err
	}
	v.Set = nil
	return s.change(func() error { return s.x.Append(ctx, v) })
}

// Delete removes rows from the results of later Vectors: all of them, or none after an error. Deleting a row twice
// does nothing.
func (s *Set) Delete(rows ...int) error {
	return s.change(func() error { return s.x.Delete(rows...) })
}

// Vectors returns a snapshot of the rows, for the engine's operations: rows that are appended or deleted later have no
// effect on it. Data is nil if the rows were not added at once. Deleted rows are not found by TopK, Max and AnyAbove,
// are not counted in Distribution, and have NaN as scores in matrices.
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

// Metric returns the metric of the index.
func (s *Set) Metric() kernels.Metric { return s.x.Metric() }

// Describe returns the contents of the set and what it runs on.
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

// Only restricts a prepared set's Vectors to the given rows, in ascending order, for TopK, Max and AnyAbove and their
// variants for many queries: these find no other row, and read only chunks that contain a given one. Rows keep their
// numbers; biases refer to all rows. Other operations refuse the result with kernels.ErrArgument, which is also the
// error for rows that do not exist. ok is false if v has no index: the rows would be read completely, and copying them
// is faster.
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

// Blocks returns all rows in blocks of at most 1,024, with near rows together. Searches read the biases of one block
// at a time: computing biases from lists of rows (postings) is fastest if the lists are in this order. A block with a
// number keeps it and its rows permanently. Blocks without one, and rows appended later, are combined into new blocks
// as more rows are added.
func (s *Set) Blocks() []RowBlock { return s.x.Blocks() }

// Close frees the set's memory; running operations finish. Every later use of the set or of its Vectors is ErrClosed.
// A second call does nothing.
func (s *Set) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		s.now.retire(nil)
	}
}

// snapshot is the state of a set when Vectors was called.
type snapshot struct {
	set                *Set
	x                  *index.Index
	size, dim, deleted int
	selected           bool         // made by Only
	kept               *device.Kept // of all rows
	parts              []*part      // the rows as they were added

	mu      sync.Mutex
	rows    cpu.Rows  // all rows contiguously; N = 0 until first used
	live    *snapshot // without the deleted rows
	retired bool
	others  [kernels.L2 + 1]*index.Index
}

// retire frees what the snapshot keeps for later operations, except what it shares with the next one.
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

// gather copies all rows to contiguous memory if they were not added at once.
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

// index returns the index if it searches in the given metric.
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

// use checks vectors that belong to prepared sets, at the start of an operation.
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
		v.Set = nil // a subset of them, as plain vectors
	}
	return nil
}

// fill is use for operations that read rows: rows that were not added at once are gathered.
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

// snapshotOf returns the snapshot of the set that v refers to, or nil.
func snapshotOf(v Vectors) *snapshot {
	m, _ := v.Set.(*snapshot)
	return m
}

// searched returns the index that finds rows of c in the given metric; nil if the engine reads all rows on its device.
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

// Save writes what took time to make to a file: codes, rotation, clusters, norms, deleted rows, and a digest of the
// vectors, which stay with the caller. The file is there whole, or as it was before.
func (s *Set) Save(ctx context.Context, path string) error {
	v := s.Vectors()
	if err := use(&v); err != nil {
		return err
	}
	m := snapshotOf(v)
	if err := durable.Replace(path, func(w io.Writer) error { return m.x.Save(ctx, w) }); err != nil {
		return fmt.Errorf("engine: saving a set: %w", err)
	}
	return nil
}

// Load makes a saved set again, over the same vectors: all rows in the order of their numbers, deleted ones too. They
// are read once, for their digest (unless SetOptions.Digest names them): other vectors are ErrSetVectors. A file that
// is damaged, of another version or something else is ErrSetFile. Clusters and Seed of the options do not matter.
func (e *Engine) Load(ctx context.Context, path string, v Vectors, o SetOptions) (*Set, error) {
	if err := fill(ctx, &v); err != nil {
		return nil, err
	}
	v.Set = nil
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("engine: loading a set: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("engine: loading a set: %w", err)
	}
	x, err := index.Load(ctx, &e.r, f, info.Size(), v, o.index())
	if err != nil {
		return nil, fmt.Errorf("%w (%s)", err, path)
	}
	return e.newSet(x, o)
}
