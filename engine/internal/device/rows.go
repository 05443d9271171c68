package device

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/scores"
)

// Operand is a checked set of vectors. Ready means that its values are known to be finite and, for
// cosine, its norms are there; else Scorer does both block by block.
type Operand struct {
	cpu.Rows
	Name  string
	Ready bool
	Kept  *Kept // packed sets of all rows that are kept for later; nil: none are
}

// Prepared is what kernels.Vectors.Set holds: vectors that were checked, with their norms.
type Prepared interface {
	PreparedRows() (cpu.Rows, *Kept)
}

// View checks the shape of v; name is what errors call it.
func View(name string, v kernels.Vectors) (Operand, error) {
	o := Operand{Name: name}
	if v.Rows == 0 {
		return o, nil
	}
	stride := v.Stride
	if stride == 0 {
		stride = v.Dim
	}
	if v.Rows < 0 || v.Dim < 1 || stride < v.Dim {
		return o,
			fmt.Errorf("engine: %s: %w: %d rows, dimension %d, stride %d", name, kernels.ErrShape, v.Rows, v.Dim,
				v.Stride)
	}
	if len(v.Data) < v.Dim || v.Rows-1 > (len(v.Data)-v.Dim)/stride {
		return o, fmt.Errorf("engine: %s: %w: %d rows of dimension %d with stride %d in %d values",
			name, kernels.ErrShape, v.Rows, v.Dim, stride, len(v.Data))
	}
	o.Rows = cpu.Rows{Data: v.Data, N: v.Rows, Dim: v.Dim, Stride: stride}
	if p, ok := v.Set.(Prepared); ok {
		rows, kept := p.PreparedRows()
		// not a part of them
		if rows.N == o.N && rows.Dim == o.Dim && rows.Stride == stride && &rows.Data[0] == &o.Data[0] {
			o.Rows, o.Ready, o.Kept = rows, true, kept
		}
	}
	return o, nil
}

// Views checks two sets that are compared with each other.
func Views(nameA string, a kernels.Vectors, nameB string, b kernels.Vectors, metric kernels.Metric) (oa, ob Operand,
	err error) {
	if metric > kernels.L2 {
		return oa, ob, fmt.Errorf("engine: %w: %s", kernels.ErrMetric, metric)
	}
	if oa, err = View(nameA, a); err != nil {
		return oa, ob, err
	}
	if ob, err = View(nameB, b); err != nil {
		return oa, ob, err
	}
	if oa.N > 0 && ob.N > 0 && oa.Dim != ob.Dim {
		return oa, ob,
			fmt.Errorf("engine: %w: %s have dimension %d, %s %d", kernels.ErrShape, nameA, oa.Dim, nameB, ob.Dim)
	}
	return oa, ob, nil
}

// NonFinite is the error for a NaN or infinite value; Row counts from the operand's first.
type NonFinite struct {
	Name     string
	Row, Col int
	Value    float32
}

func (e *NonFinite) Error() string {
	return fmt.Sprintf("engine: %s: %v: row %d, column %d is %v", e.Name, kernels.ErrNonFinite, e.Row, e.Col, e.Value)
}

func (e *NonFinite) Unwrap() error { return kernels.ErrNonFinite }

// CheckFinite checks the rows [from, to) of o.
func (r *Resources) CheckFinite(o *Operand, from, to int) error {
	bad, err := scores.NonFinite(r.Host, o.Slice(from, to))
	if err != nil || bad < 0 {
		return err
	}
	bad += from
	for col, x := range o.Row(bad) {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return &NonFinite{o.Name, bad, col, x}
		}
	}
	return nil
}

// Prepare checks all values of o and computes the norms, in parallel.
func (r *Resources) Prepare(ctx context.Context, o *Operand, metric kernels.Metric) error {
	if o.N == 0 || o.Ready {
		return nil
	}
	if metric == kernels.Cosine {
		o.Norms = make([]float64, o.N)
	}
	chunk := max(1, TileWork/8/o.Dim)
	err := r.Pool.Each(ctx, workers.Ceil(o.N, chunk), 0, func(_, task int) error {
		from, to := task*chunk, min(o.N, (task+1)*chunk)
		if err := r.CheckFinite(o, from, to); err != nil || o.Norms == nil {
			return err
		}
		return scores.Norms(r.Host, o.Norms[from:to], o.Slice(from, to))
	})
	o.Ready = err == nil
	return err
}

// PrepareBoth prepares two operands.
func (r *Resources) PrepareBoth(ctx context.Context, a, b *Operand, metric kernels.Metric) error {
	if err := r.Prepare(ctx, a, metric); err != nil {
		return err
	}
	return r.Prepare(ctx, b, metric)
}

// PowerOfTwo returns the power of two that brings the largest norm to at most 1.
func PowerOfTwo(norms []float64) float64 {
	largest := slices.Max(norms)
	if largest == 0 {
		return 1
	}
	_, exponent := math.Frexp(largest)
	return math.Ldexp(1, -exponent)
}

// PackAll fills all panels of s, in parallel.
func (r *Resources) PackAll(ctx context.Context, s Set, rows cpu.Rows, order []int32) error {
	step := workers.Clamp(TileWork/8/(Panel*rows.Dim), 1, 16)
	if bytes := r.Describe().PackBytes; bytes > 0 {
		step = workers.Clamp(bytes/(4*Panel*rows.Dim), 1, MaxSide)
	}
	return r.Pool.Each(ctx, workers.Ceil(s.Count(), step), 0, func(_, task int) error {
		return r.Pack(s, rows, order, task*step, min(s.Count(), (task+1)*step))
	})
}

// digestRows is how many rows are hashed together; part of the digest's definition.
const digestRows = 1024

// Digest is sha256 over the shape and the sha256 of each 1,024 rows in order, as little-endian float32; row returns one
// of them. It does not depend on how rows lie in memory.
func (r *Resources) Digest(ctx context.Context, n, dim int, row func(i int) []float32) (sum [sha256.Size]byte,
	err error) {
	blocks := make([][sha256.Size]byte, workers.Ceil(n, digestRows))
	err = r.Pool.Each(ctx, len(blocks), 0, func(_, task int) error {
		h, bytes := sha256.New(), make([]byte, 4*dim)
		for i := task * digestRows; i < min(n, (task+1)*digestRows); i++ {
			for k, x := range row(i)[:dim] {
				binary.LittleEndian.PutUint32(bytes[4*k:], math.Float32bits(x))
			}
			h.Write(bytes)
		}
		h.Sum(blocks[task][:0])
		return nil
	})
	if err != nil {
		return sum, err
	}
	h := sha256.New()
	h.Write(binary.LittleEndian.AppendUint64([]byte("sluice rows 1 "), uint64(n)))
	h.Write(binary.LittleEndian.AppendUint64(nil, uint64(dim)))
	for i := range blocks {
		h.Write(blocks[i][:])
	}
	h.Sum(sum[:0])
	return sum, nil
}
