package index

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/scan"
)

// The file of an index holds what took time to compute, and a digest of the vectors, which stay with the caller. All
// numbers are little-endian:
//
//	magic with the version; metric, dimension, rows, sha256 of the vectors (device.Digest)
//	deleted rows: their number, and the rows in ascending order
//	model, if there are codes: scale, skew, clusters, origin, rotation, its product with the origin, centres, profile
//	rows appended since it was learned; per group: rows, norms, chunks; with chunks, all their rows, centres, leading
//	coordinates, and of each chunk its rows, five limits, what bounds its codes, terms (l2) and codes
//	CRC-32C of everything above
//
// A change of the layout of codes (kernels/cpu/scan/scan.h), of their bounds, or of the meaning of the model requires
// a new version.
const magic = "SLCINDX\x01"

// The errors of files.
var (
	ErrFile    = errors.New("not the file of a prepared set, of another version, or damaged")
	ErrVectors = errors.New("other vectors than those of the file")
)

// Save writes the current state of the index.
func (x *Index) Save(ctx context.Context, to io.Writer) error {
	s := x.now.Load()
	digest, err := s.digest(ctx, x.r, x.options)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriterSize(to, 1<<16)
	w := &writer{ctx: ctx, to: buffered}
	w.put([]byte(magic), uint64(x.metric), uint64(s.dim), uint64(s.rows), digest[:])
	dead, err := s.dead.list(ctx)
	if err != nil {
		return err
	}
	w.put(uint64(len(dead)), dead)
	m := s.model
	coded := m != nil && m.reason == ""
	if w.put(bit(coded)); coded {
		w.put(m.scale, m.skew, uint64(m.clusters), m.origin, m.rotation.Data, m.turned, m.centres.Data)
		for _, p := range m.profile {
			w.put(p.High, p.Both, p.Behind)
		}
	}
	w.put(uint64(s.unclustered), uint64(len(s.groups)))
	for _, g := range s.groups {
		w.group(g)
	}
	w.put(w.crc)
	if w.err == nil {
		w.err = buffered.Flush()
	}
	if w.err != nil {
		return fmt.Errorf("engine: saving an index: %w", w.err)
	}
	return nil
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func (w *writer) group(g *group) {
	w.put(uint64(g.N), g.Norms, uint64(len(g.chunks)))
	if len(g.chunks) == 0 {
		return
	}
	w.put(g.centres.Data, g.leads.Data)
	for i := range g.chunks {
		c := &g.chunks[i]
		codes, meta, terms := c.Parts()
		w.put(uint64(len(c.rows)), c.rows, c.shift, c.radius, c.term, c.length, c.half, meta, terms, codes)
	}
}

// digest returns the digest of the snapshot's vectors.
func (s *snapshot) digest(ctx context.Context, r *device.Resources, o Options) ([sha256.Size]byte, error) {
	if o.Digest != nil {
		return o.Digest(ctx, s.rows)
	}
	return r.Digest(ctx, s.rows, s.dim, func(i int) []float32 {
		g := s.groupOf(i)
		return g.Row(i - g.first)
	})
}

// groupOf returns the group that contains a row.
func (s *snapshot) groupOf(row int) *group {
	at, found := slices.BinarySearchFunc(s.groups, row, func(g *group, row int) int { return g.first - row })
	if !found {
		at--
	}
	return s.groups[at]
}

// list returns the rows in ascending order.
func (d *deadRows) list(ctx context.Context) ([]uint64, error) {
	rows := make([]uint64, 0, d.count)
	err := workers.Over(ctx, len(d.pages)*pageRows, func(from, to int) {
		for i := from; i < to; i++ {
			if d.has(i) {
				rows = append(rows, uint64(i))
			}
		}
	})
	return rows, err
}

// Load restores an index from a file of size bytes, over the vectors that it was saved with. The vectors are read once
// to compute their digest. With Options.Digest they are not read, and v may have additional rows, which are appended.
// ErrFile means that the file is not a complete file of this version, ErrVectors that it belongs to other vectors.
func Load(ctx context.Context, r *device.Resources, from io.Reader, size int64, v kernels.Vectors, o Options) (*Index,
	error) {
	all, err := device.View("vectors", v)
	if err != nil {
		return nil, err
	}
	in := &reader{ctx: ctx, from: bufio.NewReaderSize(from, 1<<16), left: size - 4}
	x, s, digest := in.index(ctx, r, all, o)
	if in.err == nil && in.left != 0 {
		in.fail(fmt.Errorf("%d bytes too many", in.left))
	}
	if in.err == nil {
		crc, sum := in.crc, [4]byte{}
		if _, err := io.ReadFull(in.from, sum[:]); err != nil {
			in.fail(err)
		} else if got := binary.LittleEndian.Uint32(sum[:]); got != crc {
			in.fail(fmt.Errorf("checksum %08x, want %08x", got, crc))
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(in.err, ErrVectors):
		return nil, fmt.Errorf("engine: %w", in.err)
	case in.err != nil:
		return nil, fmt.Errorf("engine: %w: %w", ErrFile, in.err)
	}
	has, err := s.digest(ctx, r, o)
	if err != nil {
		return nil, err
	}
	if has != digest {
		return nil, fmt.Errorf("engine: %w: digest %x, the file has %x", ErrVectors, has[:8], digest[:8])
	}
	if err := x.adopt(ctx, s); err != nil || s.rows == v.Rows {
		return x, err
	}
	v.Rows, v.Data = v.Rows-s.rows, v.Data[s.rows*all.Stride:]
	return x, x.Append(ctx, v)
}

// index reads everything except the checksum.
func (r *reader) index(ctx context.Context, resources *device.Resources, all device.Operand, o Options) (x *Index,
	s *snapshot, digest [sha256.Size]byte) {
	var head [len(magic)]byte
	if _, _ = r.Read(head[:]); string(head[:]) != magic {
		r.fail(errors.New("no magic"))
		return nil, nil, digest
	}
	metric, dim, rows := kernels.Metric(r.count(int(kernels.L2))), r.count(1<<30), r.count(1<<48)
	_, _ = r.Read(digest[:])
	if r.err == nil && (rows > all.N || rows < all.N && o.Digest == nil || rows > 0 && dim != all.Dim) {
		r.fail(fmt.Errorf("%w: %d×%d, the file is of %d×%d", ErrVectors, all.N, all.Dim, rows, dim))
		return nil, nil, digest
	}
	all.N = min(all.N, rows)
	x, s = empty(resources, metric, o), &snapshot{rows: rows, dim: dim}
	before := -1
	for i, row := range listOf[uint64](r, r.count(rows)) {
		if i%workers.Stretch == 0 && ctx.Err() != nil {
			return x, s, digest
		}
		if row >= uint64(rows) || int(row) <= before {
			r.fail(fmt.Errorf("row %d of %d is deleted, after %d", row, rows, before))
			return x, s, digest
		}
		before = int(row)
		s.dead.add(before)
	}
	if r.count(1) == 1 {
		s.model = r.model(dim)
	}
	s.unclustered = r.count(rows)
	groups, first := r.count(rows), 0
	for range groups {
		if r.err != nil || ctx.Err() != nil {
			return x, s, digest
		}
		g := r.group(s.model, metric, all, first)
		if r.err == nil {
			s.groups, first = append(s.groups, g), first+g.N
		}
	}
	if first != rows {
		r.fail(fmt.Errorf("%d rows in the groups, %d in all", first, rows))
	}
	return x, s, digest
}

// add inserts a row. It may be called by one goroutine only, before the set is shared.
func (d *deadRows) add(row int) {
	for len(d.pages) <= row/pageRows {
		d.pages = append(d.pages, nil)
	}
	page := &d.pages[row/pageRows]
	if *page == nil {
		*page = new([64]uint64)
	}
	(*page)[row%pageRows/64] |= 1 << (row % 64)
	d.count++
}

func (r *reader) model(dim int) *model {
	m := &model{sections: workers.Ceil(dim, scan.Section)}
	if dim < 1 || m.sections > scan.MaxSections {
		r.fail(fmt.Errorf("codes of dimension %d", dim))
		return m
	}
	m.scale, m.skew, m.clusters = r.f64(), r.f64(), r.count(1<<31-1)
	m.origin = finiteOf[float32](r, dim)
	m.rotation = cpu.Rows{Data: finiteOf[float32](r, dim*dim), N: dim, Dim: dim, Stride: dim}
	m.turned = finiteOf[float64](r, dim)
	leading := min(dim, clusterDims)
	m.centres = cpu.Rows{Data: finiteOf[float32](r, m.clusters*leading), N: m.clusters, Dim: leading, Stride: leading}
	profile := finiteOf[float64](r, 3*m.sections)
	if r.err == nil {
		for i := range m.sections {
			m.profile = append(m.profile,
				scan.SectionProfile{High: profile[3*i], Both: profile[3*i+1], Behind: profile[3*i+2]})
		}
		if !(m.scale > 0 && m.scale <= math.MaxFloat32) || !(m.skew >= 0 && m.skew <= 1) || m.clusters < 1 {
			r.fail(fmt.Errorf("scale %v, skew %v, %d clusters", m.scale, m.skew, m.clusters))
		}
	}
	return m
}

// group reads a group whose first row has number first.
func (r *reader) group(m *model, metric kernels.Metric, all device.Operand, first int) *group {
	n := r.count(all.N - first)
	if r.err == nil && n < 1 {
		r.fail(errors.New("a group of no rows"))
	}
	if r.err != nil {
		return nil
	}
	g := &group{Operand: device.Operand{Rows: all.Slice(first, first+n), Name: "vectors", Ready: true}, first: first}
	g.Norms = listOf[float64](r, n)
	chunks := r.count(n)
	if chunks == 0 || r.err != nil {
		return g
	}
	if m == nil {
		r.fail(errors.New("chunks without a model"))
		return nil
	}
	g.centres = cpu.Rows{Data: finiteOf[float32](r, chunks*g.Dim), N: chunks, Dim: g.Dim, Stride: g.Dim}
	g.leads = cpu.Rows{Data: finiteOf[float32](r, chunks*m.centres.Dim), N: chunks, Dim: m.centres.Dim,
		Stride: m.centres.Dim}
	seen, total := make([]bool, n), 0
	for range chunks {
		c := r.chunk(m, metric, n)
		for _, row := range c.rows {
			if row < 0 || int(row) >= n || seen[row] {
				r.fail(fmt.Errorf("row %d of %d, or twice", row, n))
				break
			}
			seen[row] = true
		}
		if r.err != nil {
			return nil
		}
		g.chunks, total = append(g.chunks, c), total+len(c.rows)
	}
	if total != n {
		r.fail(fmt.Errorf("%d rows in the chunks of a group of %d", total, n))
	}
	return g
}

func (r *reader) chunk(m *model, metric kernels.Metric, rows int) (c chunk) {
	n := r.count(min(rows, chunkRows))
	if n < 1 {
		r.fail(errors.New("a chunk of no rows"))
		return c
	}
	c.rows = listOf[int32](r, n)
	c.shift, c.radius, c.term, c.length, c.half = r.f64(), r.f64(), r.f64(), r.f64(), r.f64()
	if math.IsNaN(c.shift + c.radius + c.term + c.length + c.half) {
		r.fail(errNumber)
	}
	panels := workers.Ceil(n, scan.Lanes)
	meta, terms := listOf[float32](r, scan.ChunkMeta(panels, m.sections)), []float32(nil)
	if metric == kernels.L2 {
		terms = listOf[float32](r, panels*scan.Lanes)
	}
	size := scan.Bytes(panels, m.sections)
	if r.err != nil || int64(size) > r.left {
		r.fail(errEnd)
		return c
	}
	codes := cpu.Aligned(size)
	_, _ = r.Read(codes)
	if r.err == nil {
		var err error
		if c.Chunk, err = scan.ChunkOf(panels, m.sections, codes, meta, terms); err != nil {
			r.fail(err)
		}
	}
	return c
}

// adopt makes the loaded snapshot the content of the index. Codes that this machine cannot scan are dropped; groups
// without codes are coded if this machine can do so.
func (x *Index) adopt(ctx context.Context, s *snapshot) error {
	switch reason := x.noCodes(s.dim); {
	case reason != "" && s.rows > 0:
		s.model = &model{reason: reason}
		for i, g := range s.groups {
			s.groups[i] = &group{Operand: g.Operand, first: g.first}
		}
	case reason == "" && s.model == nil:
		for i, g := range s.groups {
			coded, err := x.encoded(ctx, s, g, pending)
			if err != nil {
				return err
			}
			s.groups[i] = coded
		}
		s.unclustered = 0
	}
	s.list()
	x.now.Store(s)
	return nil
}

// writer writes little-endian numbers and lists, and keeps a checksum of them. The first error stays.
type writer struct {
	ctx context.Context
	to  io.Writer
	crc uint32
	err error
}

func (w *writer) Write(b []byte) (int, error) {
	if w.err == nil {
		w.err = w.ctx.Err()
	}
	if w.err != nil {
		return 0, w.err
	}
	w.crc = durable.MoreChecksum(w.crc, b)
	_, w.err = w.to.Write(b)
	return len(b), w.err
}

// put writes numbers, and lists of them without their lengths, in pieces.
func (w *writer) put(values ...any) {
	for _, v := range values {
		switch v := v.(type) {
		case []float64:
			putList(w, v)
		case []float32:
			putList(w, v)
		case []int32:
			putList(w, v)
		case []uint64:
			putList(w, v)
		default:
			w.one(v)
		}
	}
}

func putList[T int32 | float32 | float64 | uint64](w *writer, list []T) {
	for part := range slices.Chunk(list, workers.Stretch) {
		w.one(part)
	}
}

func (w *writer) one(v any) {
	if w.err == nil {
		w.err = binary.Write(w, binary.LittleEndian, v)
	}
}

// errEnd is an end before what a file says that it holds.
var errEnd = errors.New("the file ends too soon")

// reader reads what writer wrote from a file of known length, which may hold anything: the first error stays, what is
// read after it is 0, and no list is made that the rest of the file could not fill.
type reader struct {
	ctx  context.Context
	from io.Reader
	left int64 // bytes, the checksum not included
	crc  uint32
	err  error
}

func (r *reader) Read(b []byte) (int, error) {
	if r.err == nil {
		r.err = r.ctx.Err()
	}
	if r.err != nil {
		return 0, r.err
	}
	if int64(len(b)) > r.left {
		r.err = errEnd
		return 0, r.err
	}
	if _, err := io.ReadFull(r.from, b); err != nil {
		r.err = err
		return 0, err
	}
	r.left -= int64(len(b))
	r.crc = durable.MoreChecksum(r.crc, b)
	return len(b), nil
}

// fail is for content that cannot be.
func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *reader) u64() uint64 {
	var b [8]byte
	_, _ = r.Read(b[:]) // an error stays, and leaves 0
	return binary.LittleEndian.Uint64(b[:])
}

func (r *reader) f64() float64 { return math.Float64frombits(r.u64()) }

// count reads a length of at most limit.
func (r *reader) count(limit int) int {
	n := r.u64()
	if n > uint64(limit) {
		r.fail(errCount)
		return 0
	}
	return int(n)
}

var errCount = errors.New("a length that cannot be")

// finiteOf is listOf of numbers none of which is NaN, infinite or so large that products overflow.
func finiteOf[T float32 | float64](r *reader, n int) []T {
	list := listOf[T](r, n)
	err := workers.Over(r.ctx, len(list), func(from, to int) {
		for _, x := range list[from:to] {
			if !(math.Abs(float64(x)) <= math.MaxFloat32) {
				r.fail(errNumber)
				break
			}
		}
	})
	if err != nil {
		r.fail(err)
	}
	return list
}

var errNumber = errors.New("a number that cannot be")

// listOf reads n numbers.
func listOf[T int32 | float32 | float64 | uint64](r *reader, n int) []T {
	if r.err != nil || n < 0 || int64(n) > r.left/int64(binary.Size(T(0))) {
		r.fail(errEnd)
		return nil
	}
	list := make([]T, n)
	for part := range slices.Chunk(list, workers.Stretch) {
		if err := binary.Read(r, binary.LittleEndian, part); err != nil {
			r.fail(err)
			break
		}
	}
	return list
}
