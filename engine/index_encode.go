package engine

import (
	"cmp"
	"context"
	"math"
	"slices"
	"unsafe"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

const chunkRows = cpu.ScanPanels * cpu.ScanLanes

// encode orders the group's rows by cluster, cuts them into chunks and codes them.
func (x *Index) encode(ctx context.Context, m *model, g *group) (*group, error) {
	coded := &group{operand: g.operand, first: g.first}
	order, cuts, err := x.order(ctx, m, g)
	if err != nil {
		return nil, err
	}
	panels := 0
	coded.chunks = make([]chunk, len(cuts)-1)
	starts := make([]int, len(cuts))
	for i := range coded.chunks {
		starts[i] = panels
		panels += ceil(cuts[i+1]-cuts[i], cpu.ScanLanes)
	}
	codes := hugePages(cpu.ScanBytes(1, m.sections) * panels)
	coded.centres = cpu.Rows{Data: make([]float32, len(coded.chunks)*g.Dim), N: len(coded.chunks), Dim: g.Dim, Stride: g.Dim}
	coded.leads = cpu.Rows{Data: make([]float32, len(coded.chunks)*m.centres.Dim), N: len(coded.chunks), Dim: m.centres.Dim, Stride: m.centres.Dim}
	work := make([]*encoder, x.e.threads)
	err = x.e.each(ctx, len(coded.chunks), x.e.threads, func(worker, i int) error {
		if work[worker] == nil {
			work[worker] = newEncoder(x, m)
		}
		rows := order[cuts[i]:cuts[i+1]]
		count := ceil(len(rows), cpu.ScanLanes)
		from := cpu.ScanBytes(1, m.sections) * starts[i]
		c, err := cpu.NewChunk(codes[from:from+cpu.ScanBytes(count, m.sections)], count, m.sections, x.metric == kernels.L2)
		if err != nil {
			return err
		}
		coded.chunks[i] = chunk{Chunk: c, rows: rows, live: len(rows)}
		return work[worker].chunk(coded, i)
	})
	if err == nil && m.profile == nil {
		m.profile = make([]cpu.SectionProfile, m.sections)
		for i := range coded.chunks {
			coded.chunks[i].Mean(m.profile)
		}
	}
	return coded, err
}

// place is where a row belongs: its cluster, and how much of it the leading coordinates leave out.
type place struct {
	cluster, row int32
	rest         float32
}

// order sorts the rows by cluster, inside by what their leading coordinates leave, so that a panel's
// rows have like bounds, and says where the chunks begin: at clusters, unless those are small.
func (x *Index) order(ctx context.Context, m *model, g *group) (rows []int32, cuts []int, err error) {
	places := make([]place, g.N)
	const block = 512
	dims := m.centres.Dim
	err = x.e.each(ctx, ceil(g.N, block), x.e.threads, func(_, task int) error {
		from, to := task*block, min(g.N, (task+1)*block)
		tilde := cpu.Rows{Data: make([]float32, (to-from)*g.Dim), N: to - from, Dim: g.Dim, Stride: g.Dim}
		points := cpu.Rows{Data: make([]float32, (to-from)*dims), N: to - from, Dim: dims, Stride: dims}
		out, nearest := make([]float64, (to-from)*dims), make([]int32, to-from)
		for i := range to - from {
			m.tilde(tilde.Row(i), g, from+i, x.metric)
		}
		if err := x.e.kernels.Scores(kernels.IP, out, dims, tilde, m.rotation.Slice(0, dims)); err != nil {
			return err
		}
		for i, v := range out {
			points.Data[i] = float32(v)
		}
		if err := x.e.nearest(m.centres, points, nearest); err != nil {
			return err
		}
		for i := range to - from {
			rest := float32(0)
			for _, v := range tilde.Row(i) {
				rest += v * v
			}
			for _, v := range points.Row(i) {
				rest -= v * v
			}
			places[from+i] = place{nearest[i], int32(from + i), rest}
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.cluster, b.cluster), cmp.Compare(a.rest, b.rest), cmp.Compare(a.row, b.row))
	})
	rows = make([]int32, g.N)
	for i, p := range places {
		rows[i] = p.row
	}
	return rows, cut(places), nil
}

// cut says where chunks begin and, last, where the rows end. A cluster is cut into equal chunks; small
// ones share a chunk until it has 64 rows, so that few panels are partly empty.
func cut(places []place) []int {
	const few = 4 * cpu.ScanLanes
	cuts, begin := []int{0}, 0
	for i := range places {
		if i+1 < len(places) && (places[i+1].cluster == places[i].cluster || i+1-begin < few) {
			continue
		}
		size := i + 1 - begin
		step := ceil(ceil(size, ceil(size, chunkRows)), cpu.ScanLanes) * cpu.ScanLanes
		for size > 0 {
			n := min(step, size)
			begin, size = begin+n, size-n
			cuts = append(cuts, begin)
		}
	}
	return cuts
}

// encoder is the scratch memory of one goroutine that codes chunks.
type encoder struct {
	x       *Index
	m       *model
	rows    []float32 // of a panel
	turned  []float64
	y       []float64
	centre  []float64
	product []float64
}

func newEncoder(x *Index, m *model) *encoder {
	d, width := m.rotation.Dim, m.sections*cpu.ScanSection
	return &encoder{x, m, make([]float32, cpu.ScanLanes*d), make([]float64, cpu.ScanLanes*d),
		make([]float64, cpu.ScanLanes*width), make([]float64, d), make([]float64, d)}
}

// chunk sets the codes of chunk i of g, and its centre, the mean of its rows' c~.
func (w *encoder) chunk(g *group, i int) error {
	c, centre, m, d := &g.chunks[i], g.centres.Row(i), w.m, g.Dim
	clear(w.centre)
	for _, row := range c.rows {
		f := m.factor(g, int(row), w.x.metric) / float64(len(c.rows))
		for k, v := range g.Row(int(row)) {
			w.centre[k] += f * (float64(v) - float64(m.origin[k]))
		}
	}
	length := 0.0
	for k, v := range w.centre {
		centre[k] = float32(v)
		c.shift += float64(m.origin[k]) * float64(centre[k])
		length += float64(centre[k]) * float64(centre[k])
	}
	one := cpu.Rows{Data: centre, N: 1, Dim: d, Stride: d}
	if err := w.x.e.kernels.Scores(kernels.IP, w.product, d, one, m.rotation); err != nil {
		return err
	}
	for k := range g.leads.Row(i) {
		g.leads.Row(i)[k] = float32(w.product[k])
	}
	if w.x.metric == kernels.L2 {
		c.half, c.term = length/2, math.Inf(-1)
	}
	for panel := range c.Panels {
		if err := w.panel(c, g, panel); err != nil {
			return err
		}
	}
	// |c~| ≤ |centre| + |c~ − centre|, and the rotation keeps lengths up to the skew
	c.length = (math.Sqrt(length) + c.radius) * (1 + m.skew + 1e-9)
	return nil
}

// panel codes y = R·c~ − R·centre of 16 rows.
func (w *encoder) panel(c *chunk, g *group, panel int) error {
	m, d, width := w.m, g.Dim, w.m.sections*cpu.ScanSection
	for lane := range cpu.ScanLanes {
		copy(w.rows[lane*d:], g.Row(c.row(panel, lane)))
	}
	from := cpu.Rows{Data: w.rows, N: cpu.ScanLanes, Dim: d, Stride: d}
	if err := w.x.e.kernels.Scores(kernels.IP, w.turned, d, from, m.rotation); err != nil {
		return err
	}
	slop := 0.0
	for lane := range cpu.ScanLanes {
		row := c.row(panel, lane)
		f, size, square := m.factor(g, row, w.x.metric), 0.0, 0.0
		y := w.y[lane*width:]
		for k, v := range w.turned[lane*d : (lane+1)*d] {
			a, b := f*v, m.scale*m.turned[k]
			y[k] = a - b - w.product[k]
			size += math.Abs(a) + math.Abs(b) + math.Abs(w.product[k]) // Σ|x_k| ≥ ‖x‖
		}
		slop = max(slop, m.tiny()*math.Sqrt(float64(d))*size)
		if w.x.metric == kernels.L2 {
			for k, v := range g.Row(row) {
				t := f * (float64(v) - float64(m.origin[k]))
				square += t * t
			}
			c.term = max(c.term, c.SetTerm(panel*cpu.ScanLanes+lane, -square/2*(1-m.tiny())))
		}
	}
	c.radius = max(c.radius, c.Pack(panel, w.y, slop))
	return nil
}

// row is the group's row at a place.
func (c *chunk) row(panel, lane int) int {
	return int(c.rows[min(panel*cpu.ScanLanes+lane, len(c.rows)-1)])
}

// tiny is more than the relative error of a sum of d products in float64, several times over.
func (m *model) tiny() float64 { return float64(m.rotation.Dim+64) * 0x1p-50 }

// alignedBytes is n zeroed bytes whose address is a multiple of align.
func alignedBytes(n, align int) []byte {
	b := make([]byte, n+align-1)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (align - 1)
	return b[skip : skip+n : skip+n]
}
