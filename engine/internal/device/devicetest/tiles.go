package devicetest

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// set holds vectors as rows of float64.
type set struct {
	owner  *StandIn
	side   device.Side
	dtype  kernels.DType
	metric kernels.Metric
	n, dim int
	scale  float64
	rows   []float64 // n × dim, normalised or scaled
	norms  []float64
	halves []float64 // of the norms' squares
	seeds  []uint64  // seeds of the deliberate errors
	mu     sync.Mutex
	norm   float64 // largest norm so far
}

func (s *set) Len() int       { return s.n }
func (s *set) Count() int     { return (s.n + device.Panel - 1) / device.Panel }
func (s *set) Norm() float64  { return s.norm }
func (s *set) Short() bool    { return false }
func (s *set) Scale() float64 { return s.scale }
func (s *set) Dimension() int { return s.dim }

func (s *set) row(i int) []float64 { return s.rows[i*s.dim : (i+1)*s.dim] }

func (d *StandIn) New(side device.Side, t kernels.DType, m kernels.Metric, n, dim int, scale float64) (device.Set,
	error) {
	leave, err := d.enter("New")
	if err != nil {
		return nil, err
	}
	defer leave()
	if !d.Has(t) || n < 0 || dim < 1 || m > kernels.L2 || !(scale > 0) {
		return nil, fmt.Errorf("%w: a set of %d×%d %s, metric %s, scale %v", kernels.ErrShape, n, dim, t, m, scale)
	}
	if err := d.fits(d.Bytes(t, n, dim)); err != nil {
		return nil, err
	}
	d.live.Add(1)
	d.take(d.Bytes(t, n, dim))
	return &set{owner: d, side: side, dtype: t, metric: m, n: n, dim: dim, scale: scale,
		rows: make([]float64, n*dim), norms: make([]float64, n),
		halves: make([]float64, n), seeds: make([]uint64, n)}, nil
}

func (d *StandIn) Free(s device.Set) {
	if c, ok := s.(*codes); ok {
		s = c.set
	}
	if s, ok := s.(*set); ok && s.owner == d {
		s.owner, s.rows = nil, nil
		d.live.Add(-1)
		d.take(-d.Bytes(s.dtype, s.n, s.dim))
	}
}

var errForeign = errors.New("a set of another device, or one that was freed")

func (d *StandIn) own(s device.Set) (*set, error) {
	if s, ok := s.(*set); ok && s.owner == d {
		return s, nil
	}
	return nil, fmt.Errorf("%w: %w", kernels.ErrArgument, errForeign)
}

func (d *StandIn) Pack(to device.Set, rows cpu.Rows, order []int32, from, until int) error {
	leave, err := d.enter("Pack")
	if err != nil {
		return err
	}
	defer leave()
	s, err := d.own(to)
	if err != nil {
		return err
	}
	if order == nil {
		order = make([]int32, s.n)
		for i := range order {
			order[i] = int32(i)
		}
	}
	if rows.Dim != s.dim || len(order) < s.n || from < 0 || until > s.Count() || from > until {
		return fmt.Errorf("%w: panels %d to %d of %d×%d from %d×%d rows", kernels.ErrShape, from, until, s.n, s.dim,
			rows.N, rows.Dim)
	}
	first := from * device.Panel
	source, at, _, err := d.read(rows, order[first:min(s.n, until*device.Panel)])
	if err != nil {
		return err
	}
	largest := 0.
	for i, row := range at {
		if row < 0 || int(row) >= source.N {
			return fmt.Errorf("%w: row %d of %d", kernels.ErrShape, row, source.N)
		}
		largest = max(largest, s.put(first+i, source, int(row)))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.norm = max(s.norm, largest)
	return nil
}

// put packs one vector and returns its norm, rounded up.
func (s *set) put(i int, rows cpu.Rows, row int) float64 {
	scale := s.scale
	if s.metric == kernels.Cosine {
		scale = 0
		if norm := rows.Norms[row]; norm > 0 {
			scale = 1 / norm
		}
	}
	seed, square := uint64(1), 0.
	for k, x := range rows.Row(row) {
		y := float64(x) * scale
		s.row(i)[k] = y
		square += y * y
		seed = mix(seed ^ uint64(math.Float32bits(x)))
	}
	s.seeds[i], s.norms[i], s.halves[i] = seed, math.Sqrt(square)*(1+1e-9), square/2
	return s.norms[i]
}

// mix scatters bits (the finaliser of SplitMix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// off returns the largest deliberate error of a tile value for vectors of norm 1.
func off(t kernels.DType) float64 {
	if t == kernels.F32 {
		return 2e-7
	}
	return 3e-3
}

// Bound implements device.Device: the sum of the deliberate errors, the rounding to float32, and the errors of the
// canonical scores and of the sums here.
func (d *StandIn) Bound(left, right device.Set) float64 {
	l, r := left.(*set), right.(*set)
	both := (l.norm + r.norm) * (l.norm + r.norm)
	return 1.01*(off(l.dtype)*l.norm*r.norm+0x1p-23*both+1e-14*float64(l.dim+16)*both) + 0x1p-120
}

// value returns the tile value of a pair. Its error is at most off and depends on the two vectors only.
func value(rows *set, row int, lanes *set, lane int) float32 {
	score := dot(rows.row(row), lanes.row(lane))
	if rows.metric == kernels.L2 {
		score -= rows.halves[row] + lanes.halves[lane]
	}
	share := float64(int64(mix(rows.seeds[row]^mix(lanes.seeds[lane])))) / (1 << 63)
	return float32(score + share*off(rows.dtype)*rows.norms[row]*lanes.norms[lane])
}

// dot returns x·y as four sums, none of which waits for another.
func dot(x, y []float64) float64 {
	var a, b, c, d float64
	for y = y[:len(x)]; len(x) >= 4; x, y = x[4:], y[4:] {
		a, b, c, d = a+x[0]*y[0], b+x[1]*y[1], c+x[2]*y[2], d+x[3]*y[3]
	}
	for k, v := range x {
		a += v * y[k]
	}
	return a + b + (c + d)
}

// tiles checks the arguments of a call on tiles.
func (d *StandIn) tiles(rows device.Set, row0, row1 int, lanes device.Set, lane0, lane1 int) (left, right *set,
	err error) {
	if left, err = d.own(rows); err != nil {
		return nil, nil, err
	}
	if right, err = d.own(lanes); err != nil {
		return nil, nil, err
	}
	same := left.dtype == right.dtype && left.metric == right.metric && left.dim == right.dim
	if left.side != device.Left || right.side != device.Right || !same {
		return nil, nil, fmt.Errorf("%w: sets that are not made for each other", kernels.ErrShape)
	}
	if row0 < 0 || row1 < row0 || row1 > left.Count() || lane0 < 0 || lane1 < lane0 || lane1 > right.Count() {
		return nil, nil, fmt.Errorf("%w: panels [%d, %d) × [%d, %d)", kernels.ErrShape, row0, row1, lane0, lane1)
	}
	return left, right, nil
}

func (d *StandIn) Matrix(out []float32, stride int, rows device.Set, row0, row1 int, lanes device.Set, lane0,
	lane1 int) error {
	leave, err := d.enter("Matrix")
	if err != nil {
		return err
	}
	defer leave()
	left, right, err := d.tiles(rows, row0, row1, lanes, lane0, lane1)
	if err != nil {
		return err
	}
	i0, i1, j0, j1 := row0*device.Panel, min(left.n, row1*device.Panel), lane0*device.Panel,
		min(right.n, lane1*device.Panel)
	for i := i0; i < i1; i++ {
		for j := j0; j < j1; j++ {
			v := float64(value(left, i, right, j))
			switch left.metric {
			case kernels.IP:
				v = v / left.scale / right.scale
			case kernels.L2:
				v = math.Sqrt(max(0, -2*v)) / left.scale
			default:
				v = min(max(v, -1), 1)
			}
			out[(i-i0)*stride+j-j0] = float32(v)
		}
	}
	return nil
}
