package gpu

import (
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/sluice-rag/sluice/cuda"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/scan"
)

// unit is the number of coordinates that are coded together (kernels/cuda/scan.cuh).
const unit = 16

func unitsOf(dim int) int { return (dim + unit - 1) / unit }

// codes holds coded rows in GPU memory.
type codes struct {
	owner      *Device
	axes       *device.Axes
	n          int
	head, tail int      // in units
	memory     cuda.Ptr // one allocation for all of the arrays
	places     [5]int64 // offsets of the codes of head and tail, of their per-row bounds, and of the terms
	codes      float64  // largest norm of a row's codes
	length     float64  // largest norm of a row's coordinates
	slop       float64  // ≥ the norm of the errors of the coordinates
	mu         sync.Mutex
	isFreed    bool
}

func (c *codes) Len() int           { return c.n }
func (c *codes) Count() int         { return (c.n + device.Panel - 1) / device.Panel }
func (c *codes) Dimension() int     { return c.axes.Rotation.Dim }
func (c *codes) Scale() float64     { return c.axes.Scale }
func (c *codes) Norm() float64      { return c.length }
func (c *codes) Short() bool        { return false }
func (c *codes) Axes() *device.Axes { return c.axes }

// HasScan implements device.Device: all architectures of the image have the dot product of four bytes.
func (d *Device) HasScan() bool { return true }

// codeFound mirrors slc::CodeFound.
type codeFound struct{ Codes, Length float64 } // squares

// codeBlock is the number of bytes of coordinates that are rotated at a time.
const codeBlock = 32 << 20

// Code implements device.Device. The rows are packed and multiplied by the rotation on the GPU, a block at a time, so
// that no second copy of all rows is needed.
func (d *Device) Code(ctx context.Context, rows cpu.Rows, x *device.Axes, head int) (_ device.Codes, err error) {
	dim := x.Rotation.Dim
	if _, there, err := d.resident(rows, x.Metric == kernels.Cosine); err != nil {
		return nil, err
	} else if !there || rows.Dim != dim || dim > device.ScanDim || rows.N < 1 || head < 1 || head > dim {
		return nil, fmt.Errorf("%w: codes of %d×%d rows in %d coordinates, %d of them first; on the GPU %v; at most %d",
			kernels.ErrShape, rows.N, rows.Dim, dim, head, there, device.ScanDim)
	}
	c := &codes{owner: d, axes: x, n: rows.N, head: unitsOf(head)}
	c.tail = unitsOf(max(0, dim-c.head*unit))
	all := int64(c.Count()) * device.Panel
	bytes := int64(0)
	for i, width := range []int64{int64(c.head * unit), int64(c.tail * unit), 8, 8, 4} {
		c.places[i] = bytes
		bytes += all * width // multiples of 128
	}
	if c.memory, err = d.gpu.Alloc(bytes); err != nil {
		return nil, fmt.Errorf("gpu: codes of %d×%d: %w", c.n, dim, err)
	}
	if err = d.code(ctx, c, rows); err != nil {
		d.gpu.Free(c.memory)
		return nil, fmt.Errorf("gpu: codes of %d×%d: %w", c.n, dim, err)
	}
	return c, nil
}

// code fills c with the codes of rows.
func (d *Device) code(ctx context.Context, c *codes, rows cpu.Rows) error {
	dim := c.Dimension()
	axes, err := d.New(device.Right, kernels.F32, kernels.IP, dim, dim, 1)
	if err != nil {
		return err
	}
	defer d.Free(axes)
	if err := d.Pack(axes, c.axes.Rotation, nil, 0, axes.Count()); err != nil {
		return err
	}
	var temporary pieces
	defer temporary.free(d)
	step := max(1, codeBlock/(4*dim*device.Panel)) * device.Panel
	y, err := temporary.take(d, 4*int64(min(step, c.Count()*device.Panel))*int64(dim))
	if err != nil {
		return err
	}
	turned, err := temporary.take(d, 8*int64(dim))
	if err != nil {
		return err
	}
	found, err := temporary.take(d, 16)
	if err != nil {
		return err
	}
	err = d.gpu.Do(func(s *cuda.Stream) error {
		if err := s.Write(turned, bytesOf(c.axes.Turned)); err != nil {
			return err
		}
		return s.Fill(found, 0, 16)
	})
	for from := 0; err == nil && from < c.n; from += step {
		if err = ctx.Err(); err == nil {
			err = d.codeBlock(c, rows, from, min(c.n, from+step), axes.(*set), y, turned, found)
		}
	}
	if err != nil {
		return err
	}
	var got [1]codeFound
	if err := d.gpu.Do(func(s *cuda.Stream) error { return s.Read(bytesOf(got[:]), found) }); err != nil {
		return err
	}
	c.codes, c.length = up*math.Sqrt(got[0].Codes), up*math.Sqrt(got[0].Length)+c.slop
	return nil
}

// codeBlock codes the rows [from, to); from is the first row of a panel.
func (d *Device) codeBlock(c *codes, rows cpu.Rows, from, to int, axes *set, y, turned, found cuda.Ptr) error {
	metric := kernels.IP // the inner product omits the terms of l2
	if c.axes.Metric == kernels.Cosine {
		metric = kernels.Cosine
	}
	packed, err := d.New(device.Left, kernels.F32, metric, to-from, rows.Dim, c.axes.Scale)
	if err != nil {
		return err
	}
	defer d.Free(packed)
	if err := d.Pack(packed, rows.Slice(from, to), nil, 0, packed.Count()); err != nil {
		return err
	}
	slop := d.Bound(packed, axes) * math.Sqrt(float64(rows.Dim)) * (1 + 1e-9)
	c.slop = max(c.slop, slop)
	w := tilesOf(packed.(*set), axes, 0, packed.Count(), 0, axes.Count())
	matrix, err := d.kernel("slc_matrix_" + w.kernel)
	if err != nil {
		return err
	}
	code, err := d.kernel("slc_code")
	if err != nil {
		return err
	}
	return d.gpu.Do(func(s *cuda.Stream) error {
		args := append(w.arguments, uint64(kernels.IP), math.Float64bits(1), uint64(y), uint64(rows.Dim))
		if err := s.Launch(matrix, w.grid, w.block, w.shared, args...); err != nil {
			return err
		}
		blocks := (packed.Count()*device.Panel + scanWarps - 1) / scanWarps
		at := c.addresses()
		return s.Launch(code, [3]int{blocks, 1, 1}, [3]int{scanThreads, 1, 1}, 0, uint64(y), uint64(rows.Dim),
			uint64(turned), uint64(from), uint64(to-from), uint64(c.head), uint64(c.tail), math.Float64bits(slop),
			at[0],
			at[1], at[2], at[3], at[4], uint64(found))
	})
}

// addresses returns the addresses of the codes of head and tail, of their per-row bounds, and of the terms (0 if
// absent).
func (c *codes) addresses() (at [5]uint64) {
	for i, place := range c.places {
		at[i] = uint64(c.memory) + uint64(place)
	}
	if c.axes.Metric != kernels.L2 {
		at[4] = 0
	}
	return at
}

// freeCodes frees the codes. A second call does nothing.
func (d *Device) freeCodes(c *codes) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owner == d && !c.isFreed {
		c.isFreed = true
		d.gpu.Free(c.memory)
	}
}

// Threads per block of a scan, and warps per block.
const (
	scanThreads = 256
	scanWarps   = scanThreads / 32
	scanBlocks  = 8 // blocks per multiprocessor
)

// scanQuery and scored mirror slc::ScanQuery and slc::Scored.
type scanQuery struct {
	Limit, Step, Head, Tail float32
	Bar, _                  float64
}

// scanning is the state of a call of Scan in GPU memory.
type scanning struct {
	*device.Scan
	c        *codes
	x, y     view     // queries, rows
	block    cuda.Ptr // everything that is sent in one copy: counts, queries, their codes, the list and its lifts
	host     []byte
	queries  int // offsets in the block
	codes    int
	list     int
	lifts    int
	lists    [2]cuda.Ptr // rows that remain after the first and after the second pass
	scored   cuda.Ptr
	room     int
	pieces   pieces
	counters [3 * device.ScanQueries]uint64
}

func (d *Device) Scan(s *device.Scan) error {
	c, ok := s.Codes.(*codes)
	if !ok || c.owner != d || c.isFreed {
		return fmt.Errorf("%w: codes of another device, or ones that were freed", kernels.ErrArgument)
	}
	x, y, there, err := d.both(c.axes.Metric, s.Queries, s.Rows)
	if err != nil {
		return err
	}
	n := s.Queries.N
	if !there || n < 1 || n > device.ScanQueries || len(s.Turned) != n || len(s.Bars) != n || s.Rows.N != c.n ||
		s.From < 0 || s.To < s.From || s.To > c.n || s.Room < 1 || s.List != nil && (n != 1 ||
		len(s.Lifts) != len(s.List)) {
		return fmt.Errorf("%w: a scan of rows [%d, %d) of %d for %d queries, room for %d; on the GPU %v",
			kernels.ErrShape,
			s.From, s.To, c.n, n, s.Room, there)
	}
	for i, row := range s.List {
		if row < 0 || int(row) >= c.n {
			return fmt.Errorf("%w: entry %d names row %d of %d", kernels.ErrShape, i, row, c.n)
		}
	}
	s.Found, s.Survivors, s.Full = make([][]device.Scored, n), make([]int64, n), make([]bool, n)
	if s.List == nil && s.From == s.To || s.List != nil && len(s.List) == 0 {
		return nil
	}
	p := &scanning{Scan: s, c: c, x: x, y: y}
	defer p.pieces.free(d)
	if err = p.place(d); err == nil {
		err = d.gpu.Do(func(st *cuda.Stream) error { return p.run(d, st) })
	}
	if err != nil {
		return fmt.Errorf("gpu: a scan of %d rows for %d queries: %w", c.n, n, err)
	}
	return nil
}

// place allocates memory and fills in the data that is sent.
func (p *scanning) place(d *Device) (err error) {
	n := p.Queries.N
	at := func(bytes int) (offset int) {
		offset = len(p.host)
		p.host = append(p.host, make([]byte, (bytes+15)/16*16)...)
		return offset
	}
	at(8 * len(p.counters))
	p.queries = at(n * 32)
	units := p.c.head + p.c.tail
	p.codes = at(n * units * 32)
	p.room = min(p.Room, p.To-p.From)
	if p.List != nil {
		p.room = len(p.List)
		p.list, p.lifts = at(4*p.room), at(4*p.room)
		p.counters[0] = uint64(p.room)
		lifts := make([]float32, p.room)
		for i, l := range p.Lifts {
			lifts[i] = -scan.Down(-l)
		}
		copy(p.host[p.list:], bytesOf(p.List))
		copy(p.host[p.lifts:], bytesOf(lifts))
	}
	copy(p.host, bytesOf(p.counters[:]))
	for q := range n {
		one := p.query(q, p.host[p.codes+q*units*32:][:units*32])
		copy(p.host[p.queries+32*q:], bytesOf([]scanQuery{one}))
	}
	if p.block, err = p.pieces.take(d, int64(len(p.host))); err != nil {
		return err
	}
	for i := range p.lists {
		if i == 0 && p.List != nil {
			p.lists[0] = p.block + cuda.Ptr(p.list)
			continue
		}
		if p.lists[i], err = p.pieces.take(d, 4*int64(n)*int64(p.room)); err != nil {
			return err
		}
	}
	p.scored, err = p.pieces.take(d, 16*int64(n)*int64(p.room))
	return err
}

// query codes a query with 16 bits per coordinate and subtracts the error that all rows share from its limit.
func (p *scanning) query(q int, out []byte) scanQuery {
	t, c := &p.Turned[q], p.c
	largest := 0.
	for _, z := range t.Z {
		largest = max(largest, math.Abs(z))
	}
	step := float32(largest / 32639) // so that the high byte is at most 127
	var off, head, tail float64
	for k, z := range t.Z {
		coded := 0.
		if step > 0 {
			coded = min(max(math.RoundToEven(z/float64(step)), -32639), 32639)
		}
		high := math.Round(coded / 256)
		at := k / unit * 32
		out[at+k%unit], out[at+unit+k%unit] = byte(int8(high)), byte(int8(coded-256*high))
		off += (z - coded*float64(step)) * (z - coded*float64(step))
		if k < c.head*unit {
			head += z * z
		} else {
			tail += z * z
		}
	}
	head, tail = math.Sqrt(head)*up, math.Sqrt(tail)*up
	size := t.Length * (c.codes + 2*c.length + c.slop)
	slack := math.Sqrt(off)*up*c.codes + 1.1*c.axes.Skew*t.Length*c.length + 0x1p-19*size + 1e-30
	if c.axes.Metric == kernels.L2 { // of the terms
		slack += c.length*c.slop + (c.axes.Skew+0x1p-20)*c.length*c.length
	}
	limit := c.axes.Limit(t, p.Bars[q])
	if !math.IsInf(limit, 0) {
		limit -= slack
	}
	one := scanQuery{Limit: scan.Down(limit), Step: step, Head: float32(head * (1 + 0x1p-23)),
		Tail: float32(tail * (1 + 0x1p-23)), Bar: p.Bars[q]}
	if p.List != nil { // the bias is not known on the device
		one.Bar = c.axes.Metric.Worst()
	}
	return one
}

// run launches the scan, the second pass and the canonical scores, and reads the results.
func (p *scanning) run(d *Device, s *cuda.Stream) error {
	n, units := p.Queries.N, p.c.head+p.c.tail
	if err := s.Write(p.block, p.host); err != nil {
		return err
	}
	at := p.c.addresses()
	coded := []uint64{at[0], at[1], at[2], at[3], at[4], uint64(p.c.n), uint64(p.c.head), uint64(p.c.tail)}
	counts := func(look int) uint64 { return uint64(p.block) + uint64(8*look*device.ScanQueries) }
	queries, words := uint64(p.block)+uint64(p.queries), uint64(p.block)+uint64(p.codes)
	wide := scanBlocks * max(1, d.gpu.Info().Multiprocessors)
	threads := [3]int{scanThreads, 1, 1}
	lifts, places := uint64(0), uint64(0)
	launch := func(name string, blocks, y, shared int, args ...uint64) error {
		k, err := d.kernel(name)
		if err != nil {
			return err
		}
		return s.Launch(k, [3]int{max(1, min(wide, blocks)), y, 1}, threads, shared, args...)
	}
	if p.List == nil {
		name := "slc_scan_8"
		if n == 1 {
			name = "slc_scan_1"
		}
		panels := (p.To+device.Panel-1)/device.Panel - p.From/device.Panel
		if err := launch(name, (panels+scanWarps-1)/scanWarps, 1, n*units*32, append(coded, queries, words, uint64(n),
			uint64(p.From), uint64(p.To), uint64(p.lists[0]), uint64(p.room), counts(0))...); err != nil {
			return err
		}
	} else {
		lifts, places = uint64(p.block)+uint64(p.lifts), 1
	}
	few := (p.room + scanThreads - 1) / scanThreads
	if err := launch("slc_sift", few, n, units*32, append(coded, queries, words, uint64(p.lists[0]), lifts,
		uint64(p.room), counts(0), uint64(p.lists[1]), counts(1), places)...); err != nil {
		return err
	}
	if err := launch("slc_rescore", 8*few, n, 0, p.x.rows, uint64(p.x.stride), p.x.norms, p.y.rows, uint64(p.y.stride),
		p.y.norms, uint64(p.Rows.Dim), uint64(p.c.axes.Metric), queries, uint64(p.lists[0]), uint64(p.room),
		uint64(p.lists[1]), counts(1), places, uint64(p.scored), counts(2)); err != nil {
		return err
	}
	return p.receive(s)
}

func (p *scanning) receive(s *cuda.Stream) error {
	if err := s.Read(bytesOf(p.counters[:]), p.block); err != nil {
		return err
	}
	for q := range p.Queries.N {
		seen, left, found := p.counters[q], p.counters[device.ScanQueries+q], p.counters[2*device.ScanQueries+q]
		p.Survivors[q] = int64(left)
		if p.Full[q] = max(seen, left, found) > uint64(p.room); p.Full[q] || found == 0 {
			continue
		}
		p.Found[q] = make([]device.Scored, found)
		if err := s.Read(bytesOf(p.Found[q]), p.scored+cuda.Ptr(16*q*p.room)); err != nil {
			return err
		}
	}
	return nil
}
