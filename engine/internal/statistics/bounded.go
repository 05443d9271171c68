package statistics

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels"
)

// bounded is the plan of a sweep over all pairs in panels: a function of the input and the kernels,
// never of threads. Tile values are larger where a pair is closer, and within epsilon of the canonical
// score's value.
type bounded struct {
	dtype               kernels.DType
	metric              kernels.Metric
	rows, lanes         device.Set // contexts and queries
	rowAt, laneAt       []int32    // packed → row; nil: the same
	own                 []int32    // per lane: the packed row of its own context
	rowGroup, laneGroup []int32    // nil where there are no groups to tell apart
	counting            bool       // D− is what the sweep counts; else it is empty, or sampled
	others              bool       // there are contexts other than near ones
	epsilon             float64
	unit                float64 // value = unit·score (ip), score (cosine), −(unit·score)²/2 (l2)

	rowStep, laneStep, columns, tasks int // panels per task; tasks per step of rows; tasks in all

	look       look
	statistics []statistic
}

// Memory per worker of a sweep in bytes: two lists of candidates, cells or bins, and small things.
const (
	sweepBytes = 2 << 20
	listRoom   = 1 << 15
	maxCells   = 1 << 17
)

// newBounded packs both sides and plans the first sweep. It returns nil where the memory limit has no
// room for panels: canonical scores need none.
func (j *job) newBounded(ctx context.Context, dtype kernels.DType) (*bounded, error) {
	k, g := j.r, &j.negatives
	panels := k.Bytes(dtype, j.c.N, j.c.Dim) + k.Bytes(dtype, j.q.N, j.c.Dim) + 24*int64(j.q.N+2*device.Panel)
	room := j.room - panels
	if room < 1<<22 {
		return nil, nil
	}
	// A quarter is for workers, so that the plan knows nothing of their number.
	j.room = room / 4 * 3
	j.blocks.Workers = int(min(int64(j.blocks.Workers), max(1, room/4/(sweepBytes+j.perWorker))))
	b := &bounded{dtype: dtype, metric: j.in.Metric, counting: g.total > 0 && !g.sampled(), others: j.in.Group == nil || g.groups()}
	b.orderRows(j)
	if err := b.pack(ctx, j); err != nil {
		return nil, err
	}
	b.cut(j.r)
	return b, j.lookFor(ctx, b)
}

// orderRows orders contexts by group and queries by their own context, so that few tiles hold near pairs.
func (b *bounded) orderRows(j *job) {
	owner, at := j.in.Owner, []int32(nil)
	if j.in.Group != nil && b.others {
		b.rowAt = sortedBy(j.in.Group)
		at = inverse(b.rowAt)
	}
	b.own = make([]int32, j.q.N)
	for q, c := range owner {
		b.own[q] = through(at, int(c))
	}
	if b.laneAt = sortedBy(b.own); b.laneAt != nil {
		slices.Sort(b.own)
	}
	if j.in.Group == nil || !b.others {
		return
	}
	b.rowGroup, b.laneGroup = make([]int32, j.c.N), make([]int32, j.q.N)
	for i := range b.rowGroup {
		b.rowGroup[i] = j.in.Group[through(b.rowAt, i)]
	}
	for l := range b.laneGroup {
		b.laneGroup[l] = b.rowGroup[b.own[l]]
	}
}

// through is list[i], or i without a list.
func through(list []int32, i int) int32 {
	if list == nil {
		return int32(i)
	}
	return list[i]
}

// sortedBy is the stable order of the keys, nil if they are in order.
func sortedBy(keys []int32) []int32 {
	if slices.IsSorted(keys) {
		return nil
	}
	order := ascending(len(keys))
	slices.SortFunc(order, func(x, y int32) int {
		if c := cmp.Compare(keys[x], keys[y]); c != 0 {
			return c
		}
		return cmp.Compare(x, y)
	})
	return order
}

func inverse(order []int32) []int32 {
	if order == nil {
		return nil
	}
	at := make([]int32, len(order))
	for i, row := range order {
		at[row] = int32(i)
	}
	return at
}

// pack fills the panels and finds the bound.
func (b *bounded) pack(ctx context.Context, j *job) (err error) {
	scaleRows, scaleLanes := 1., 1.
	if b.metric != kernels.Cosine {
		scaleRows, scaleLanes = device.PowerOfTwo(j.c.Norms), device.PowerOfTwo(j.q.Norms)
	}
	b.unit = scaleRows * scaleLanes
	if b.metric == kernels.L2 {
		scaleRows = min(scaleRows, scaleLanes)
		scaleLanes, b.unit = scaleRows, scaleRows
	}
	if b.rows, err = j.r.New(device.Left, b.dtype, b.metric, j.c.N, j.c.Dim, scaleRows); err != nil {
		return err
	}
	if b.lanes, err = j.r.New(device.Right, b.dtype, b.metric, j.q.N, j.q.Dim, scaleLanes); err != nil {
		return err
	}
	if err := j.r.PackAll(ctx, b.rows, j.c.Rows, b.rowAt); err != nil {
		return err
	}
	err = j.r.PackAll(ctx, b.lanes, j.q.Rows, b.laneAt)
	b.epsilon = j.r.Bound(b.rows, b.lanes)
	return err
}

// cut chooses the tasks: about 64 at least, and no longer than the device asks for; asked-for ones, four times that.
func (b *bounded) cut(r *device.Resources) {
	rows, lanes := b.rows.Count(), b.lanes.Count()
	tiles := max(1, r.Describe().CountWork/(device.Panel*device.Panel*b.rows.Dimension()))
	if r.TileRows > 0 {
		step := min(workers.Ceil(r.TileRows, device.Panel), max(1, int(2*math.Sqrt(float64(tiles)))))
		b.rowStep, b.laneStep = min(step, rows, maxStep), min(step, lanes, maxStep)
	} else {
		tiles = workers.Clamp(rows*lanes/64, 1, tiles)
		b.rowStep = min(rows, max(1, int(math.Sqrt(float64(tiles)))))
		b.laneStep = min(lanes, max(1, tiles/b.rowStep), maxStep)
	}
	b.columns = workers.Ceil(lanes, b.laneStep)
	b.tasks = b.columns * workers.Ceil(rows, b.rowStep)
}

const maxStep = 2048 // panels in one count

// block is the panels of a task.
func (b *bounded) block(task int) (row0, row1, lane0, lane1 int) {
	row0, lane0 = task/b.columns*b.rowStep, task%b.columns*b.laneStep
	return row0, min(row0+b.rowStep, b.rows.Count()), lane0, min(lane0+b.laneStep, b.lanes.Count())
}

// pair is the query and the context of an entry of a task.
func (b *bounded) pair(task int, at uint32) (query, context int32) {
	row0, _, lane0, _ := b.block(task)
	return through(b.laneAt, lane0*device.Panel+int(at&0xffff)), through(b.rowAt, row0*device.Panel+int(at>>16))
}

// value is the exact counterpart of a tile's value, score the inverse.
func (b *bounded) value(score float64) float64 {
	switch b.metric {
	case kernels.IP:
		return score * b.unit
	case kernels.L2:
		score *= b.unit
		return -score * score / 2
	}
	return score
}

func (b *bounded) score(value float64) float64 {
	switch b.metric {
	case kernels.IP:
		return value / b.unit
	case kernels.L2:
		return math.Sqrt(max(0, -2*value)) / b.unit
	}
	return min(max(value, -1), 1)
}

// rank turns a rank by score into one by value, and back: distances fall as values rise.
func (b *bounded) rank(r, total int64) int64 {
	if b.metric == kernels.L2 {
		return total - 1 - r
	}
	return r
}

// down and up round to float32 away from where the value must stay.
func down(x float64) float32 {
	f := float32(x)
	if float64(f) > x {
		f = math.Nextafter32(f, float32(math.Inf(-1)))
	}
	return f
}

func up(x float64) float32 { return -down(-x) }
