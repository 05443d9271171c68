package index

import (
	"context"
	"math"
	"slices"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/scan"
	"github.com/sluice-rag/sluice/kernels/cpu/scores"
)

// query is one query prepared for scans: z = R·q~ and the terms that convert a limit on scores to a limit on the
// scan's sums.
type query struct {
	cpu.Rows // one row, with its norm
	norm     [1]float64
	metric   kernels.Metric
	model    *model
	factor   float64 // q~ = factor·(q − origin)
	length   float64 // ≥ ‖q~‖
	square   float64 // l2: ‖q~‖²
	size     float64 // ≥ factor·(‖q‖ + ‖origin‖), for roundings
	slop     float64 // ≥ the norm of the error of z
	turned   []float64
	z        []float64
	lead     []float32 // the leading coordinates
}

func newQuery(m *model, metric kernels.Metric, dim int) *query {
	q := &query{metric: metric, model: m}
	q.N, q.Dim, q.Stride = 1, dim, dim
	if m != nil && m.reason == "" {
		q.turned, q.z = make([]float64, dim), make([]float64, m.sections*scan.Section)
		q.lead = make([]float32, m.centres.Dim)
	}
	return q
}

// set prepares a finite vector.
func (q *query) set(r *device.Resources, vector []float32) error {
	q.Data, q.Norms = vector, q.norm[:]
	if err := scores.Norms(r.Host, q.norm[:], q.Rows); err != nil || q.z == nil {
		return err
	}
	m := q.model
	q.factor = m.scale
	if q.metric != kernels.L2 { // only the direction matters: limits are divided by the norm as well
		if q.factor = 1 / q.norm[0]; q.norm[0] == 0 {
			q.factor = 1
		}
	}
	if err := scores.Block(r.Host, kernels.IP, q.turned, q.Dim, q.Rows, m.rotation); err != nil {
		return err
	}
	q.size, q.square = 0, 0
	total := 0.0
	for k, v := range q.turned {
		a, b := q.factor*v, q.factor*m.turned[k]
		q.z[k] = a - b
		q.size += math.Abs(a) + math.Abs(b)
		total += q.z[k] * q.z[k]
	}
	for k := range q.lead {
		q.lead[k] = float32(q.z[k])
	}
	if q.metric == kernels.L2 {
		for k, v := range vector {
			d := q.factor * (float64(v) - float64(m.origin[k]))
			q.square += d * d
		}
	}
	q.slop = m.tiny() * math.Sqrt(float64(q.Dim)) * q.size
	q.length = (math.Sqrt(total) + q.slop) * (1 + m.skew + 1e-9)
	return nil
}

// far reports whether q~ is so long (l2, a query far from all rows) that it would make the bound of a shared product
// useless for the other queries.
func (q *query) far() bool { return q.length > 1e3 }

// tilde writes q~, rounded to float32.
func (q *query) tilde(out []float32) {
	for k, v := range q.Data {
		out[k] = float32(q.factor * (float64(v) - float64(q.model.origin[k])))
	}
}

// limit converts a score to the least q~·c~ (l2: q~·c~ − ½‖c~‖²) that is at least as good, and returns a bound of its
// error.
func (q *query) limit(score float64) (limit, off float64) {
	tiny := q.model.tiny()
	switch q.metric {
	case kernels.L2:
		if score < 0 || math.IsInf(score, 1) {
			return math.Inf(int(math.Copysign(1, -score))), 0 // no distance is negative, all are finite
		}
		scaled := q.factor * score
		return (q.square - scaled*scaled) / 2, tiny * (q.square + scaled*scaled)
	case kernels.IP:
		limit = q.factor * q.model.scale * score
	default:
		limit = score
	}
	if math.IsInf(limit, 0) {
		return limit, 0
	}
	return limit, tiny * (1 + math.Abs(limit))
}

// lift returns by how much a row with bias b may fall short of the limit for that score: linear·b + square·b².
func (q *query) lift(score float64) (linear, square float64) {
	switch q.metric {
	case kernels.L2: // ((score + b)² − score²)/2; a negative score counts as 0, as in queryState.need
		if !math.IsInf(score, 0) {
			linear = q.factor * q.factor * max(score, 0)
		}
		return linear, q.factor * q.factor / 2
	case kernels.IP:
		return q.factor * q.model.scale, 0
	default:
		return 1, 0
	}
}

// base returns q~·centre of chunk i of g. product is scratch space for one value.
func (q *query) base(r *device.Resources, g *group, i int, product []float64) (float64, error) {
	err := scores.Block(r.Host, kernels.IP, product, 1, q.Rows, g.centres.Slice(i, i+1))
	return q.factor * (product[0] - g.chunks[i].shift), err
}

// bases writes the bases of n chunks, starting at chunk first, to out.
func (q *query) bases(r *device.Resources, g *group, first, n int, out []float64) ([]float64, error) {
	if cap(out) < n {
		out = make([]float64, n)
	}
	out = out[:n]
	if err := scores.Block(r.Host, kernels.IP, out, n, q.Rows, g.centres.Slice(first, first+n)); err != nil {
		return out[:0], err
	}
	for i, product := range out {
		out[i] = q.factor * (product - g.chunks[first+i].shift)
	}
	return out, nil
}

// need returns the limit on the sums of a scan of c: a row below it has a worse score. The error of base may exceed
// that of a float64 product by `off`.
func (q *query) need(c *chunk, base, limit, off float64) float32 {
	if math.IsInf(limit, 0) {
		return float32(max(limit, -math.MaxFloat32))
	}
	off += 1.1*q.model.skew*q.length*c.radius + q.model.tiny()*(2*q.size+q.length+c.length)*(1+c.length)
	return scan.Down(limit - base - off)
}

// plan chooses the order in which planes are read: always the one that tightens the mean bound most. own and behind
// are the query's norms of each section, and from each section on.
func (m *model) plan(own, behind []float64, steps []uint8) []uint8 {
	steps = steps[:0]
	high, both := 0, uint64(0)
	for len(steps) < 2*m.sections {
		best, plane := 0.0, -1 // −1 stays if no gain is a number, which happens for queries whose norms overflow
		if high < m.sections {
			p, rest := m.profile[high], 0.0
			if high+1 < m.sections {
				rest = behind[high+1] * m.profile[high+1].Behind
			}
			best, plane = behind[high]*p.Behind-rest-own[high]*p.High, 2*high
		}
		for s := range high {
			gain := own[s] * (m.profile[s].High - m.profile[s].Both)
			if both>>s&1 == 0 && (plane < 0 || gain > best) {
				best, plane = gain, 2*s+1
			}
		}
		if plane%2 == 0 {
			high++
		} else {
			both |= 1 << (plane / 2)
		}
		steps = append(steps, uint8(plane))
	}
	return steps
}

// biases holds what one query adds to the closeness of rows: as given by the caller, and for a list also sorted by
// chunk.
type biases struct {
	all  kernels.Biases   // nil: no biases
	list kernels.BiasList // the same biases if they are a list, else nil

	begin   []int32      // the entries of chunk number n are [begin[n], begin[n+1])
	entries []placedBias // by chunk
	largest []float32    // of each chunk; 0 for a chunk without biases
	next    []int32
}

// placedBias is the bias of a row, identified by its place in its chunk.
type placedBias struct {
	place int32
	value float32 // rounded up
}

// set checks a list and sorts it by chunk with a counting sort, in time proportional to the list's length. Other kinds
// of biases are read when a search reaches them.
func (b *biases) set(ctx context.Context, query int, all kernels.Biases, s *snapshot) error {
	b.all, b.list = nil, nil
	if err := device.CheckBias(ctx, query, all, s.rows); err != nil {
		return err
	}
	list, ok := all.(kernels.BiasList)
	if !ok || len(list) == 0 {
		if !ok {
			b.all = all
		}
		return nil
	}
	b.all, b.list = all, list
	b.begin = slices.Grow(b.begin[:0], s.chunks+1)[:s.chunks+1]
	b.next = slices.Grow(b.next[:0], s.chunks)[:s.chunks]
	b.largest = slices.Grow(b.largest[:0], s.chunks)[:s.chunks]
	clear(b.next)
	clear(b.largest)
	err := s.eachPart(ctx, list, func(part kernels.BiasList, g *group, where []uint32, chunk int) {
		next := b.next[chunk:]
		for _, e := range part {
			next[where[e.Row-g.first]/chunkRows]++
		}
	})
	if err != nil {
		return err
	}
	total := int32(0)
	for i, n := range b.next {
		b.begin[i], b.next[i] = total, total
		total += n
	}
	b.begin[s.chunks] = total
	b.entries = slices.Grow(b.entries[:0], int(total))[:total]
	return s.eachPart(ctx, list, func(part kernels.BiasList, g *group, where []uint32, chunk int) {
		next, largest := b.next[chunk:], b.largest[chunk:]
		for _, e := range part {
			w, value := where[e.Row-g.first], -scan.Down(-e.Value)
			c := w / chunkRows
			b.entries[next[c]] = placedBias{int32(w % chunkRows), value}
			next[c]++
			largest[c] = max(largest[c], value)
		}
	})
}

// eachPart calls fn for each piece of a list that lies in one coded group, with the places of that group's rows and
// the number of its first chunk.
func (s *snapshot) eachPart(ctx context.Context, list kernels.BiasList,
	fn func(part kernels.BiasList, g *group, where []uint32, chunk int)) error {
	chunk := 0
	for _, g := range s.groups {
		if part := list.Between(g.first, g.first+g.N); len(g.chunks) > 0 && len(part) > 0 {
			where, err := g.places(ctx)
			if err == nil {
				err = workers.Over(ctx, len(part), func(from, to int) { fn(part[from:to], g, where, chunk) })
			}
			if err != nil {
				return err
			}
		}
		chunk += len(g.chunks)
	}
	return nil
}

// places returns the place of each row of the group: chunk·chunkRows + place in the chunk.
func (g *group) places(ctx context.Context) ([]uint32, error) {
	g.locate.Lock()
	defer g.locate.Unlock()
	if g.where != nil {
		return g.where, nil
	}
	where := make([]uint32, g.N)
	for c := range g.chunks {
		if c%(workers.Stretch/chunkRows) == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		for place, row := range g.chunks[c].rows {
			where[row] = uint32(c*chunkRows + place)
		}
	}
	g.where = where
	return where, nil
}

// read writes the biases of chunk number n, rounded up, to out, and returns the largest. If the largest is 0, the
// contents of out are undefined.
func (b *biases) read(n int, u unit, out []float32) (largest float32, err error) {
	if b.list == nil {
		largest, err = device.ReadBias(b.all, u.block(n), out[:len(u.g.chunks[u.chunk].rows)])
		clear(out[len(u.g.chunks[u.chunk].rows):])
		return largest, err
	}
	if b.largest[n] > 0 {
		clear(out)
		for _, e := range b.entries[b.begin[n]:b.begin[n+1]] {
			out[e.place] = e.value
		}
	}
	return b.largest[n], nil
}

// exact returns the exact bias of a row for which read returned value.
func (b *biases) exact(row int, value float32) float64 {
	if b.list == nil || value == 0 {
		return float64(value)
	}
	return b.list.At(row)
}
