package index

import (
	"cmp"
	"context"
	"math"

	"github.com/sluice-rag/sluice/engine/internal/matrix"
	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/scan"
)

const chunkRows = scan.MaxPanels * scan.Lanes

// blockRows is how many rows are rotated at a time: 48 MiB of scratch at dimension 384.
const blockRows = 16384

// encode orders the group's rows by part and cluster, cuts them into chunks and codes them.
func (x *Index) encode(ctx context.Context, m *model, g *group, in division) (*group, error) {
	order, cuts, err := x.order(ctx, m, g, in)
	if err != nil {
		return nil, err
	}
	coded := &group{Operand: g.Operand, first: g.first, chunks: make([]chunk, len(cuts)-1)}
	coded.centres = newRows(len(coded.chunks), g.Dim)
	coded.leads = newRows(len(coded.chunks), m.centres.Dim)
	panels := 0
	for i := range coded.chunks {
		rows := order[cuts[i]:cuts[i+1]]
		coded.chunks[i].rows = rows
		panels += workers.Ceil(len(rows), scan.Lanes)
	}
	size := scan.Bytes(1, m.sections)
	codes := cpu.Aligned(size * panels)
	for i := range coded.chunks {
		c := &coded.chunks[i]
		n := workers.Ceil(len(c.rows), scan.Lanes)
		if c.Chunk, err = scan.NewChunk(codes[:size*n:size*n], n, m.sections, x.metric == kernels.L2); err != nil {
			return nil, err
		}
		codes = codes[size*n:]
	}
	w := &encoder{x: x, m: m, g: coded, residuals: newRows(min(g.N, blockRows+chunkRows), g.Dim)}
	w.turned = newRows(w.residuals.N, g.Dim)
	for from := 0; from < len(coded.chunks); {
		to := from + 1
		for to < len(coded.chunks) && cuts[to+1]-cuts[from] <= w.residuals.N {
			to++
		}
		if err := w.block(ctx, from, to, cuts); err != nil {
			return nil, err
		}
		from = to
	}
	if err := leading(ctx, x.r, m, coded.centres, coded.leads); err != nil {
		return nil, err
	}
	if m.profile == nil {
		m.profile = make([]scan.SectionProfile, m.sections)
		for i := range coded.chunks {
			coded.chunks[i].Mean(m.profile)
		}
	}
	return coded, nil
}

func newRows(n, dim int) cpu.Rows {
	return cpu.Rows{Data: make([]float32, n*dim), N: n, Dim: dim, Stride: dim}
}

func vectorsOf(r cpu.Rows) kernels.Vectors {
	return kernels.Vectors{Data: r.Data, Rows: r.N, Dim: r.Dim, Stride: r.Stride}
}

// place is where a row belongs: its cluster, and how much of it the leading coordinates leave out.
type place struct {
	part, cluster, row int32
	rest               float32
}

// order sorts the rows by part and cluster, inside by what their leading coordinates leave, so that a panel's
// rows have like bounds, and says where the chunks begin: at clusters, unless those are small.
func (x *Index) order(ctx context.Context, m *model, g *group, in division) (rows []int32, cuts []int, err error) {
	places := make([]place, g.N)
	block := min(g.N, blockRows)
	tilde, points, cells := newRows(block, g.Dim), newRows(block, m.centres.Dim), make([]int32, block)
	for from := 0; from < g.N; from += block {
		n, parts := min(block, g.N-from), []int32(nil)
		if in.rows != nil {
			parts = in.rows[from : from+n]
		}
		err := x.r.Pool.Ranges(ctx, n, func(i int) { m.tilde(tilde.Row(i), g, from+i, x.metric) })
		if err != nil {
			return nil, nil, err
		}
		if err := leading(ctx, x.r, m, tilde.Slice(0, n), points.Slice(0, n)); err != nil {
			return nil, nil, err
		}
		if err := assign(ctx, x.r, m.centres, points.Slice(0, n), cells[:n], parts, &in); err != nil {
			return nil, nil, err
		}
		err = x.r.Pool.Ranges(ctx, n, func(i int) {
			p := &places[from+i]
			p.cluster, p.row, p.rest = cells[i], int32(from+i), squared(tilde.Row(i))-squared(points.Row(i))
			if parts != nil {
				p.part = parts[i]
			}
		})
		if err != nil {
			return nil, nil, err
		}
	}
	err = workers.Sort(ctx, x.r.Pool, places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.part, b.part), cmp.Compare(a.cluster, b.cluster), cmp.Compare(a.rest, b.rest),
			cmp.Compare(a.row, b.row))
	})
	if err != nil {
		return nil, nil, err
	}
	rows = make([]int32, g.N)
	err = workers.Over(ctx, g.N, func(from, to int) {
		for i := from; i < to; i++ {
			rows[i] = places[i].row
		}
	})
	if err != nil {
		return nil, nil, err
	}
	cuts, err = cut(ctx, places)
	return rows, cuts, err
}

func squared(x []float32) (sum float32) {
	for _, v := range x {
		sum += v * v
	}
	return sum
}

// cut says where chunks begin and, last, where the rows end: at each part. A cluster is cut into equal chunks; small
// ones share a chunk until it has 64 rows, so that few panels are partly empty.
func cut(ctx context.Context, places []place) ([]int, error) {
	const few = 4 * scan.Lanes
	cuts, begin := []int{0}, 0
	for i := range places {
		if i%workers.Stretch == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if i+1 < len(places) && places[i+1].part == places[i].part &&
			(places[i+1].cluster == places[i].cluster || i+1-begin < few) {
			continue
		}
		size := i + 1 - begin
		step := workers.Ceil(workers.Ceil(size, workers.Ceil(size, chunkRows)), scan.Lanes) * scan.Lanes
		for size > 0 {
			n := min(step, size)
			begin, size = begin+n, size-n
			cuts = append(cuts, begin)
		}
	}
	return cuts, nil
}

// encoder codes the chunks of a group, a block of them at a time.
type encoder struct {
	x                 *Index
	m                 *model
	g                 *group
	residuals, turned cpu.Rows // c~ − centre, and rotated
}

// block codes the chunks [from, to); cuts say where their rows begin.
func (w *encoder) block(ctx context.Context, from, to int, cuts []int) error {
	r, d, n := w.x.r, w.g.Dim, cuts[to]-cuts[from]
	slops := make([]float64, to-from)
	err := r.Pool.Each(ctx, to-from, r.Pool.Threads, func(_, i int) error {
		slops[i] = w.centre(from+i, w.residuals.Slice(cuts[from+i]-cuts[from], cuts[from+i+1]-cuts[from]))
		return nil
	})
	if err != nil {
		return err
	}
	off, err := accurate(ctx, r, kernels.IP,
		matrix.Input{Out: w.turned.Data, Stride: d, A: vectorsOf(w.residuals.Slice(0, n)), B: vectorsOf(w.m.rotation)})
	if err != nil {
		return err
	}
	return r.Pool.Each(ctx, to-from, r.Pool.Threads, func(_, i int) error {
		slop := slops[i] + off*math.Sqrt(float64(d))
		return w.pack(&w.g.chunks[from+i], w.turned.Slice(cuts[from+i]-cuts[from], cuts[from+i+1]-cuts[from]), slop)
	})
}

// farthest is a coordinate of c~ beyond which rows are not coded well: those that the scale was learned
// from are near 1.
const farthest = 1e15

// centre sets the centre of chunk i, the mean of its rows' c~, writes the residuals, rounded to float32,
// and returns a limit for the norm of what they are off.
func (w *encoder) centre(i int, residuals cpu.Rows) (slop float64) {
	c, centre, m, metric := &w.g.chunks[i], w.g.centres.Row(i), w.m, w.x.metric
	mean := make([]float64, w.g.Dim)
	for _, row := range c.rows {
		f := m.factor(w.g, int(row), metric) / float64(len(c.rows))
		for k, v := range w.g.Row(int(row)) {
			mean[k] += f * (float64(v) - float64(m.origin[k]))
		}
	}
	c.shift, c.length, c.half = 0, 0, 0
	for k, v := range mean {
		centre[k] = float32(min(max(v, -farthest), farthest)) // every centre is valid
		c.shift += float64(m.origin[k]) * float64(centre[k])
		c.half += float64(centre[k]) * float64(centre[k]) / 2
	}
	for place, row := range c.rows {
		f, out := m.factor(w.g, int(row), metric), residuals.Row(place)
		var size, square, rest float64 // Σ|x_k| ≥ ‖x‖
		for k, v := range w.g.Row(int(row)) {
			tilde := f * (float64(v) - float64(m.origin[k]))
			r := tilde - float64(centre[k])
			out[k] = float32(r)
			if math.Abs(r) > farthest {
				out[k] = float32(math.Copysign(farthest, r))
				slop = max(slop, math.Abs(r)*math.Sqrt(float64(w.g.Dim)))
			}
			size += f*(math.Abs(float64(v))+math.Abs(float64(m.origin[k]))) + math.Abs(float64(centre[k]))
			square += tilde * tilde
			rest += r * r
		}
		slop = max(slop, math.Sqrt(rest)*0x1p-23+m.tiny()*size+0x1p-140)
		c.length = max(c.length, math.Sqrt(square)*(1+1e-9))
		if metric == kernels.L2 {
			c.setTerm(place, -square/2*(1-m.tiny()))
		}
	}
	return slop
}

// setTerm sets the l2 term of the row at a place; the last one's holds for the filling, too.
func (c *chunk) setTerm(place int, term float64) {
	set := c.SetTerm(place, term)
	if place == 0 || set > c.term {
		c.term = set
	}
	for ; place == len(c.rows)-1 && place < c.Panels*scan.Lanes; place++ {
		c.SetTerm(place, term)
	}
}

// pack codes the chunk's rotated residuals.
func (w *encoder) pack(c *chunk, turned cpu.Rows, slop float64) error {
	c.SetShape(turned)
	for panel := range c.Panels {
		from := panel * scan.Lanes
		norm, err := c.Pack(panel, turned.Slice(from, min(turned.N, from+scan.Lanes)), slop)
		if err != nil {
			return err
		}
		c.radius = max(c.radius, norm)
	}
	return nil
}

// tiny is more than the relative error of a sum of d products in float64, several times over.
func (m *model) tiny() float64 { return float64(m.rotation.Dim+64) * 0x1p-50 }
