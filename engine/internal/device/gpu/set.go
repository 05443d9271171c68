package gpu

import (
	"fmt"
	"math"
	"sync"

	"github.com/sluice-rag/sluice/cuda"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// layout describes how the vectors of a format lie in memory.
type layout struct {
	size   int  // bytes of an element
	arrays int  // number of arrays
	steps  bool // each vector has a step instead of a second array
	depth  int  // dimensions are padded to a multiple of this
}

func layoutOf(t kernels.DType) layout {
	switch t {
	case kernels.BF16:
		return layout{size: 2, arrays: 1, depth: 32}
	case kernels.BF16x3:
		return layout{size: 2, arrays: 2, depth: 32}
	case kernels.I8, kernels.FP8:
		return layout{size: 1, arrays: 1, steps: true, depth: 64}
	}
	return layout{size: 4, arrays: 1, depth: 32}
}

// lowBytes returns the bytes of a vector's second part, or of its step.
func (l layout) lowBytes(padded int) int64 {
	if l.steps {
		return 4
	}
	return int64(l.arrays-1) * int64(l.size*padded)
}

// maxDimI8 is the largest dimension for which sums of products of codes, at most 127² each, fit an int32.
const maxDimI8 = 1 << 17

// set is packed vectors in the GPU's memory, in the layouts of kernels/cuda/pack.cuh.
type set struct {
	owner   *Device
	side    device.Side
	dtype   kernels.DType
	metric  kernels.Metric
	n, dim  int
	scale   float64
	data    cuda.Ptr
	low     cuda.Ptr // second parts of bf16x3, or steps of i8 and fp8
	terms   cuda.Ptr // for l2 only
	maps    cuda.Ptr // tensor maps of data and low; 0: not used
	mu      sync.Mutex
	stats   packFound // statistics of the packed vectors
	isFreed bool
}

// packFound mirrors slc::PackFound.
type packFound struct {
	Norm, Residual, Low float64 // squares
	Short, _            uint32
}

func (s *set) Len() int       { return s.n }
func (s *set) Count() int     { return (s.n + device.Panel - 1) / device.Panel }
func (s *set) Dimension() int { return s.dim }
func (s *set) Scale() float64 { return s.scale }
func (s *set) padded() int {
	depth := layoutOf(s.dtype).depth
	return (s.dim + depth - 1) / depth * depth
}

// up is a factor larger than the relative error of the sums of squares.
const up = 1 + 1e-9

func (s *set) Norm() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return up * math.Sqrt(s.stats.Norm)
}

func (s *set) Short() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dtype != kernels.F32 && s.stats.Short != 0
}

func (d *Device) Bytes(t kernels.DType, n, dim int) int64 {
	l, s := layoutOf(t), set{dtype: t, n: n, dim: dim}
	return int64(s.Count())*device.Panel*(int64(s.padded()*l.size)+l.lowBytes(s.padded())+4) + mapsBytes
}

func (d *Device) New(side device.Side, t kernels.DType, m kernels.Metric, n, dim int, scale float64) (_ device.Set,
	err error) {
	if !d.Has(t) {
		return nil, fmt.Errorf("%w: %s has no %s tiles", kernels.ErrISA, d.Describe().ISA, t)
	}
	if n < 0 || dim < 1 || m > kernels.L2 || !(scale > 0) {
		return nil, fmt.Errorf("%w: a set of %d×%d, metric %s, scale %v", kernels.ErrShape, n, dim, m, scale)
	}
	if t == kernels.I8 && dim > maxDimI8 {
		return nil, fmt.Errorf("%w: %s tiles of dimension %d, at most %d", kernels.ErrShape, t, dim, maxDimI8)
	}
	s := &set{owner: d, side: side, dtype: t, metric: m, n: n, dim: dim, scale: scale}
	defer func() {
		if err != nil {
			d.free(s)
			err = fmt.Errorf("gpu: a set of %d×%d in %s: %w", n, dim, t, err)
		}
	}()
	l, vectors := layoutOf(t), int64(s.Count()*device.Panel)
	if s.data, err = d.gpu.Alloc(vectors * int64(s.padded()*l.size)); err != nil {
		return nil, err
	}
	if low := l.lowBytes(s.padded()); low > 0 {
		if s.low, err = d.gpu.Alloc(vectors * low); err != nil {
			return nil, err
		}
	}
	if m == kernels.L2 {
		if s.terms, err = d.gpu.Alloc(4 * vectors); err != nil {
			return nil, err
		}
	}
	if err = d.makeMaps(s); err != nil {
		return nil, err
	}
	return s, nil
}

func (d *Device) free(s *set) {
	for _, p := range []*cuda.Ptr{&s.data, &s.low, &s.terms, &s.maps} {
		d.gpu.Free(*p)
		*p = 0
	}
	s.isFreed = true
}

func (d *Device) Free(x device.Set) {
	if c, ok := x.(*codes); ok {
		d.freeCodes(c)
		return
	}
	if s, ok := x.(*set); ok && s.owner == d && !s.isFreed {
		d.free(s)
	}
}

func (d *Device) own(x device.Set) (*set, error) {
	if s, ok := x.(*set); ok && s.owner == d && !s.isFreed {
		return s, nil
	}
	return nil, fmt.Errorf("%w: a set of another device, or one that was freed", kernels.ErrArgument)
}

// packVectors is the number of vectors that a block packs, one per warp.
const packVectors = 8

// Pack implements device.Device. Rows without a copy on the GPU are sent for the duration of the call.
func (d *Device) Pack(x device.Set, rows cpu.Rows, order []int32, from, to int) error {
	s, err := d.own(x)
	if err != nil {
		return err
	}
	if rows.Dim != s.dim || order == nil && rows.N < s.n || order != nil && len(order) < s.n || from < 0 ||
		to > s.Count() || from > to {
		return fmt.Errorf("%w: panels %d to %d of %d×%d from %d×%d rows, %d in order", kernels.ErrShape, from, to, s.n,
			s.dim, rows.N, rows.Dim, len(order))
	}
	if s.metric == kernels.Cosine && len(rows.Norms) < rows.N {
		return fmt.Errorf("%w: %d norms of %d rows", kernels.ErrShape, len(rows.Norms), rows.N)
	}
	first, end := from*device.Panel, min(s.n, to*device.Panel)
	if first >= end {
		return nil
	}
	if order != nil {
		order = order[first:end]
	}
	for _, i := range order {
		if i < 0 || int(i) >= rows.N {
			return fmt.Errorf("%w: row %d of %d in the order of panels", kernels.ErrShape, i, rows.N)
		}
	}
	return d.pack(s, rows, order, first, end, to*device.Panel)
}

// pack packs the vectors [first, end), and zeros up to last; order is of these vectors, or nil.
func (d *Device) pack(s *set, rows cpu.Rows, order []int32, first, end, last int) error {
	v, there, err := d.resident(rows, s.metric == kernels.Cosine)
	if err != nil {
		return err
	}
	var temporary pieces
	defer temporary.free(d)
	base := 0 // number of the first row of rows
	if !there {
		part := rows
		if order == nil {
			part = rows.Slice(first, end)
		} else {
			part, order = gathered(rows, order), nil
		}
		var data, norms cuda.Ptr
		part.Resident = nil
		if s.metric != kernels.Cosine {
			part.Norms = nil
		}
		if err := d.upload(part, &data, &norms); err != nil {
			return fmt.Errorf("gpu: %d rows to pack: %w", part.N, err)
		}
		temporary.add(data, norms)
		v, base = view{rows: uint64(data), norms: uint64(norms), n: part.N, stride: s.dim}, first
	}
	return d.packView(s, v, order, base, first, end, last)
}

// packView is pack for rows on the GPU; base is the number of their first.
func (d *Device) packView(s *set, v view, order []int32, base, first, end, last int) error {
	var temporary pieces
	defer temporary.free(d)
	if s.metric != kernels.Cosine {
		v.norms = 0
	}
	k, err := d.kernel("slc_pack_" + s.dtype.String())
	if err != nil {
		return err
	}
	found, err := temporary.take(d, 32)
	if err != nil {
		return err
	}
	var list cuda.Ptr
	if order != nil {
		if list, err = temporary.take(d, 4*int64(len(order))); err != nil {
			return err
		}
	}
	got := make([]packFound, 1)
	err = d.gpu.Do(func(st *cuda.Stream) error {
		if err := st.Fill(found, 0, 32); err != nil {
			return err
		}
		at := uint64(0)
		if order != nil {
			if err := st.Write(list, bytesOf(order)); err != nil {
				return err
			}
			at = uint64(list)
		}
		grid := [3]int{(last - first + packVectors - 1) / packVectors, 1, 1}
		if err := st.Launch(k, grid, [3]int{32 * packVectors, 1, 1}, 0, v.rows, uint64(v.stride), v.norms, at,
			uint64(s.n), uint64(s.dim), uint64(s.padded()), uint64(first), uint64(last), uint64(base),
			math.Float64bits(s.scale), uint64(s.data), uint64(s.low), uint64(s.terms), uint64(found)); err != nil {
			return err
		}
		return st.Read(bytesOf(got), found)
	})
	if err != nil {
		return fmt.Errorf("gpu: packing %d vectors: %w", end-first, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.merge(got[0])
	return nil
}

// merge takes the maxima of f and o; NaN propagates, as max does.
func (f *packFound) merge(o packFound) {
	f.Norm, f.Residual, f.Low = max(f.Norm, o.Norm), max(f.Residual, o.Residual), max(f.Low, o.Low)
	f.Short |= o.Short
}

// gathered copies the listed rows in the list's order.
func gathered(rows cpu.Rows, list []int32) cpu.Rows {
	g := cpu.Rows{Data: make([]float32, 0, len(list)*rows.Dim), N: len(list), Dim: rows.Dim, Stride: rows.Dim}
	for _, i := range list {
		g.Data = append(g.Data, rows.Row(int(i))...)
		if rows.Norms != nil {
			g.Norms = append(g.Norms, rows.Norms[i])
		}
	}
	return g
}

// pieces holds memory that a call frees when it returns.
type pieces []cuda.Ptr

func (p *pieces) add(list ...cuda.Ptr) { *p = append(*p, list...) }

func (p *pieces) take(d *Device, bytes int64) (cuda.Ptr, error) {
	at, err := d.gpu.Alloc(bytes)
	if err == nil {
		p.add(at)
	}
	return at, err
}

func (p *pieces) free(d *Device) {
	for _, at := range *p {
		d.gpu.Free(at)
	}
}
