package index

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/scan"
)

// Options say how an index is built. The zero value is a sensible default.
type Options struct {
	Clusters int    // groups of similar rows, searched nearest first; 0 = √rows, at most 1,024
	Seed     uint64 // of the samples that rotation and clusters are learned from; no result depends on it
	Plain    bool   // no codes: every search reads all rows
	// Parts is the part that each of New's rows belongs to, numbered from 0; nil: all rows are in one part. Rows of
	// different parts share no chunk, so that a search restricted to one part (Select) reads no row of another.
	Parts []int32
	// Digest returns a digest that identifies the first rows; nil: the digest of all their numbers is computed.
	Digest func(ctx context.Context, rows int) ([sha256.Size]byte, error)
}

// Stats describe an index.
type Stats struct {
	Rows, Deleted int // rows ever added, and how many of them are deleted
	Unclustered   int // rows appended after the clusters and the rotation were learned: valid, found later
	Plain         int // rows without codes, which every query reads completely
	Clusters      int // groups of similar rows
	Chunks        int // pieces of at most 1,024 rows that are read or skipped together
	Dim           int
	Bytes         int64  // of the index, without the caller's vectors
	Kernel        string // of the scan
	Reason        string // why there are no codes, or ""
}

// Index answers Max, AnyAbove and TopK over a fixed or growing set of rows while reading a fraction of them:
// low-precision codes bound every score from above (from below for l2), and rows that the bound cannot rule out get
// their canonical score. The results therefore equal those of the Engine's operations with the same names, bit for bit,
// except that AnyAbove's witness is any row above instead of the lowest.
//
// Rows are numbered in the order of adding, from 0; a deleted row's number is not used again. The index refers to the
// vectors that it was given: they must not change while it is in use. All methods may be called concurrently; a query
// sees the rows that existed when it began.
//
// Codes: docs/adr/0003-index.md. Rows by cluster (Lloyd), residuals rotated by principal axes and cut into
// 4-bit planes; bounds by Cauchy–Schwarz per section, as in the filter step of VA-files (Weber,
// Schek, Blott, "A quantitative analysis … in high-dimensional spaces", VLDB 1998).
type Index struct {
	r       *device.Resources
	metric  kernels.Metric
	options Options
	kernel  string

	write sync.Mutex // held by calls that change the index
	now   atomic.Pointer[snapshot]

	free pool[search] // for single queries
}

// snapshot is the state of the index at one moment. It is immutable.
type snapshot struct {
	model       *model // learned from the first rows; nil before any rows were added
	groups      []*group
	units       []unit // all chunks, then plain groups
	chunks      int
	visits      []int32 // numbers of the units that are searched
	runs        []run   // their chunks
	rows, dim   int
	selected    bool    // set if Select has left only some of the rows
	length      float64 // largest |c~| of coded rows
	unclustered int
	dead        deadRows
}

// group is a set of rows that were added and coded together.
type group struct {
	device.Operand          // with norms
	first          int      // number of its first row
	chunks         []chunk  // nil: no codes
	centres        cpu.Rows // of the chunks: the means of c~ over their rows
	leads          cpu.Rows // the centres' leading coordinates in the rotation

	locate sync.Mutex
	where  []uint32 // place of each row
}

// chunk is up to 1,024 rows around a centre.
type chunk struct {
	*scan.Chunk
	rows   []int32 // rows of the group, by place in the chunk; the last panel is padded with the last row
	shift  float64 // l2: product of origin and centre
	radius float64 // largest |y|, rounded up
	term   float64 // l2: largest −½|c~|², rounded up; else 0
	length float64 // largest |c~|, rounded up
	half   float64 // l2: ½|centre|²
}

// unit is a piece of work of a search: a chunk, or rows of a group without codes.
type unit struct {
	g        *group
	chunk    int // of g; −1 = the rows [from, to)
	from, to int
}

// run is a sequence of consecutive chunks of a group: the first of them and its unit.
type run struct {
	g           *group
	chunk, unit int
	count       int
}

// New prepares c for searching. An empty c is allowed: rows can be appended later, and the first rows determine the
// clusters and the rotation.
func New(ctx context.Context, r *device.Resources, c kernels.Vectors, metric kernels.Metric, o Options) (*Index,
	error) {
	if metric > kernels.L2 {
		return nil, fmt.Errorf("engine: %w: %s", kernels.ErrMetric, metric)
	}
	if o.Clusters < 0 {
		return nil, fmt.Errorf("engine: clusters: %w: %d", kernels.ErrArgument, o.Clusters)
	}
	if o.Parts != nil && len(o.Parts) != c.Rows {
		return nil, fmt.Errorf("engine: %w: parts of %d rows, there are %d", kernels.ErrShape, len(o.Parts), c.Rows)
	}
	for _, p := range o.Parts {
		if p < 0 || int(p) >= len(o.Parts) {
			return nil, fmt.Errorf("engine: parts: %w: number %d of %d rows", kernels.ErrArgument, p, len(o.Parts))
		}
	}
	x := empty(r, metric, o)
	if err := x.add(ctx, c, 1); err != nil {
		return nil, err
	}
	x.options.Parts = nil // appended rows belong to no part
	return x, nil
}

// empty returns an index without rows.
func empty(r *device.Resources, metric kernels.Metric, o Options) *Index {
	quiet := *r // progress counts only the pairs that the caller asked for
	quiet.Report = nil
	x := &Index{r: &quiet, metric: metric, options: o, kernel: scan.Name(r.Host)}
	x.now.Store(&snapshot{})
	return x
}

// Rows returns the number of rows ever added; valid row numbers are below it.
func (x *Index) Rows() int { return x.now.Load().rows }

// Describe returns the contents of the index and what it runs on.
func (x *Index) Describe() Stats {
	s := x.now.Load()
	d := Stats{Rows: s.rows, Deleted: s.dead.count, Unclustered: s.unclustered, Dim: s.dim, Kernel: x.kernel}
	if s.model != nil {
		d.Bytes, d.Clusters, d.Reason = s.model.bytes(), s.model.clusters, s.model.reason
	}
	for _, g := range s.groups {
		d.Chunks += len(g.chunks)
		if g.chunks == nil {
			d.Plain += g.N
		}
		d.Bytes += g.bytes()
	}
	return d
}

func (g *group) bytes() int64 {
	b := int64(8*len(g.Norms) + 4*len(g.centres.Data) + 4*len(g.leads.Data))
	for i := range g.chunks {
		b += g.chunks[i].Bytes() + int64(4*len(g.chunks[i].rows))
	}
	return b
}

// pending is the number of rows that may wait for their codes. They are read completely, which is faster than the
// chunk that they would make, and keeps appending row by row cheap.
const pending = 1024

// Append adds rows after the existing ones, by reference. All results stay exact, but appended rows lie in chunks of
// their own and use the rotation learned earlier: when Unclustered is a large share of Rows, a new index is faster. If
// a value is not finite, an error is returned and nothing is added.
func (x *Index) Append(ctx context.Context, v kernels.Vectors) error { return x.add(ctx, v, pending) }

// add appends rows. The clusters and the rotation are learned as soon as there are enough rows.
func (x *Index) add(ctx context.Context, v kernels.Vectors, enough int) error {
	o, err := device.View("vectors", v)
	if err != nil || o.N == 0 {
		return err
	}
	if err := x.r.Prepare(ctx, &o, kernels.Cosine); err != nil { // norms serve every metric
		return err
	}
	x.write.Lock()
	defer x.write.Unlock()
	old := x.now.Load()
	if old.rows > 0 && o.Dim != old.dim {
		return fmt.Errorf("engine: index: %w: vectors of dimension %d, appended ones have %d", kernels.ErrShape,
			old.dim, o.Dim)
	}
	next := *old
	next.rows, next.dim = old.rows+o.N, o.Dim
	next.groups = append([]*group(nil), old.groups...)
	last := &group{Operand: o, first: old.rows}
	if n := len(next.groups); n > 0 && next.groups[n-1].waiting() {
		if waiting := next.groups[n-1]; last.N < pending {
			last, next.groups = merge(waiting, last), next.groups[:n-1]
		} else if next.groups[n-1], err = x.encoded(ctx, &next, waiting, enough); err != nil {
			return err
		}
	}
	if last, err = x.encoded(ctx, &next, last, enough); err != nil {
		return err
	}
	next.groups = append(next.groups, last)
	next.list()
	x.now.Store(&next)
	return nil
}

// encoded returns the group with codes if it is large enough, else unchanged. The model is learned from the first
// group.
func (x *Index) encoded(ctx context.Context, next *snapshot, g *group, enough int) (*group, error) {
	if g.N < enough {
		return g, nil
	}
	first, in := next.model == nil, division{}
	if first {
		var err error
		if next.model, in, err = x.learn(ctx, g); err != nil {
			return nil, err
		}
	}
	if next.model.reason != "" {
		return g, nil
	}
	coded, err := x.encode(ctx, next.model, g, in)
	if err == nil && !first {
		next.unclustered += g.N
	}
	return coded, err
}

// waiting reports whether the group is a short one without codes.
func (g *group) waiting() bool { return g.chunks == nil && g.N < pending }

// merge returns a group with copies of the rows of both groups.
func merge(a, b *group) *group {
	g := &group{Operand: a.Operand, first: a.first}
	g.N, g.Stride = a.N+b.N, a.Dim
	g.Data, g.Norms = make([]float32, 0, g.N*g.Dim), nil
	for _, from := range []*group{a, b} {
		for i := range from.N {
			g.Data = append(g.Data, from.Row(i)...)
		}
		g.Norms = append(g.Norms, from.Norms...)
	}
	return g
}

// list lists the units. Groups without codes are cut into pieces.
func (s *snapshot) list() {
	s.units, s.length = nil, 0
	for _, g := range s.groups {
		for c := range g.chunks {
			s.length = max(s.length, g.chunks[c].length)
			s.units = append(s.units, unit{g: g, chunk: c})
		}
	}
	s.chunks = len(s.units)
	for _, g := range s.groups {
		if g.chunks == nil {
			s.units = appendPlain(s.units, g)
		}
	}
	s.visit()
}

// visit lists the units that have a selected row: all of them unless Select has left only some rows.
func (s *snapshot) visit() {
	s.visits, s.runs = make([]int32, 0, len(s.units)), nil
	for at, u := range s.units {
		if s.selected && !s.alive(u) {
			continue
		}
		s.visits = append(s.visits, int32(at))
		if u.chunk < 0 {
			continue
		}
		if n := len(s.runs); n > 0 && s.runs[n-1].g == u.g && s.runs[n-1].chunk+s.runs[n-1].count == u.chunk {
			s.runs[n-1].count++
			continue
		}
		s.runs = append(s.runs, run{g: u.g, chunk: u.chunk, unit: at, count: 1})
	}
}

// alive reports whether a unit has a selected row.
func (s *snapshot) alive(u unit) bool {
	b := u.block(0)
	for i := range b.Len {
		if !s.dead.has(b.Row(i)) {
			return true
		}
	}
	return false
}

func appendPlain(units []unit, g *group) []unit {
	for from := 0; from < g.N; from += pending {
		units = append(units, unit{g: g, chunk: -1, from: from, to: min(g.N, from+pending)})
	}
	return units
}

// block returns unit number n in the form that callers use.
func (u unit) block(n int) kernels.RowBlock {
	if u.chunk < 0 {
		return kernels.RowBlock{Number: -1, First: u.g.first + u.from, Len: u.to - u.from}
	}
	rows := u.g.chunks[u.chunk].rows
	return kernels.RowBlock{Number: n, First: u.g.first, Rows: rows, Len: len(rows)}
}

// Blocks returns the rows in the order in which searches read biases.
func (x *Index) Blocks() []kernels.RowBlock {
	s := x.now.Load()
	out := make([]kernels.RowBlock, len(s.units))
	for i, u := range s.units {
		out[i] = u.block(i)
	}
	return out
}

// Delete removes rows from all later results. Deleting a row twice does nothing.
func (x *Index) Delete(rows ...int) error {
	x.write.Lock()
	defer x.write.Unlock()
	next := *x.now.Load()
	for _, row := range rows {
		if row < 0 || row >= next.rows {
			return fmt.Errorf("engine: index: delete: %w: row %d of %d rows", kernels.ErrArgument, row, next.rows)
		}
	}
	next.dead = next.dead.with(rows)
	x.now.Store(&next)
	return nil
}

// deadRows is a set of row numbers in pages that are shared between snapshots until they change.
type deadRows struct {
	pages []*[64]uint64
	count int
}

const pageRows = 64 * 64

func (d *deadRows) has(row int) bool {
	page := row / pageRows
	return page < len(d.pages) && d.pages[page] != nil && d.pages[page][row%pageRows/64]>>(row%64)&1 != 0
}

// with returns the set with additional rows.
func (d *deadRows) with(rows []int) deadRows {
	next := deadRows{pages: slices.Clone(d.pages), count: d.count}
	copied := map[int]bool{}
	for _, row := range rows {
		if next.has(row) {
			continue
		}
		page := row / pageRows
		if !copied[page] && page < len(next.pages) && next.pages[page] != nil {
			clone := *next.pages[page]
			next.pages[page] = &clone
		}
		copied[page] = true
		next.add(row)
	}
	return next
}

// pool keeps scratch memory for reuse: as many pieces as were in use at the same time.
type pool[T any] struct {
	mu   sync.Mutex
	free []*T
}

func (p *pool[T]) get() *T {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		t := p.free[n-1]
		p.free = p.free[:n-1]
		return t
	}
	return nil
}

func (p *pool[T]) put(t *T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, t)
}
