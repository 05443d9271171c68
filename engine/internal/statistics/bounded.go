package statistics

import (
	"context"
	"math"
	"slices"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu/scan"
)

// bounded is the plan of passes over all pairs in panels. It depends on the input, the device and the memory limit,
// but not on the number of threads. Tile values are larger for closer pairs, and within epsilon of the canonical
// score's value.
type bounded struct {
	dtype                   kernels.DType
	metric                  kernels.Metric
	rowCount, laneCount     int // contexts and queries
	dim                     int
	rowPanels, lanePanels   int
	rowAt, laneAt           []int32 // packed → row; nil: in the order of rows
	own                     []int32 // per lane: the packed row of its own context
	rowGroup, laneGroup     []int32 // nil if there are no groups
	counting                bool    // the pass counts D−; otherwise D− is empty or sampled
	biased                  bool    // scores have a bias: a value is unit times the closeness
	epsilon                 float64
	scaleRows, scaleLanes   float64
	unit                    float64    // value = unit·score (ip), score (cosine), −(unit·score)²/2 (l2)
	rows, lanes             device.Set // if one region holds everything: its sets, once they are packed
	ends                    []func()   // release functions of these two sets
	regionRows, regionLanes int        // panels of a region
	listRoom                int        // capacity per worker for candidates of a task

	rowStep, laneStep, columns, tasks int // panels per task; tasks per step of rows; tasks in all

	first      wanted
	statistics []statistic
}

const (
	maxCells     = 1 << 17
	listRoom     = 1 << 15 // candidates for maxima of a task; a worker has room for twice as many
	leastRoom    = 1 << 12 // if memory is short
	cellBytes    = 4 * maxCells
	consumeWork  = 64 // cost of consuming a pair, in multiply-adds
	leastRegions = 4  // least number of panels per side of a region
)

// block is a share of the pairs: the rows of some contexts × some queries.
type block struct{ rows, lanes []int32 }

// newBounded plans the passes over all pairs, or a block of them, and packs what fits. It returns nil if the memory
// limit has no room for panels; canonical scores do not need any.
func (j *job) newBounded(ctx context.Context, of *block) (*bounded, error) {
	g := &j.negatives
	b := &bounded{dtype: j.dtype, metric: j.in.Metric, dim: j.q.Dim, rowCount: j.c.N, laneCount: j.q.N,
		counting: g.total > 0 && !g.sampled()}
	if of != nil {
		b.rowCount, b.laneCount = len(of.rows), len(of.lanes)
	}
	b.rowPanels, b.lanePanels = workers.Ceil(b.rowCount, device.Panel), workers.Ceil(b.laneCount, device.Panel)
	if !b.plan(j) {
		return nil, nil
	}
	err := b.orderRows(ctx, j, of)
	if err == nil {
		err = b.setScales(ctx, j)
	}
	if err == nil {
		err = b.findBound(ctx, j)
	}
	if err != nil {
		b.free()
		return nil, err
	}
	b.cut(j.r)
	return b, nil
}

// free releases the sets that are kept between passes.
func (b *bounded) free() {
	for _, end := range b.ends {
		end()
	}
	b.rows, b.lanes, b.ends = nil, nil, nil
}

// plan divides the memory: panels may take three fifths, the rest is for kept entries and workers. A device with its
// own memory keeps the panels there. plan returns false if there is not enough memory for the smallest region.
func (b *bounded) plan(j *job) bool {
	bytes := func(panels int) int64 { return j.r.Bytes(b.dtype, panels*device.Panel, j.c.Dim) }
	b.listRoom = listRoom
	perWorker := int64(2*listRoom)*entryBytes + cellBytes + j.perWorker
	if room := j.room / 4; room/perWorker < int64(j.blocks.Workers) {
		b.listRoom = leastRoom
		perWorker = int64(2*leastRoom)*entryBytes + 1<<18
		j.blocks.Workers = int(min(int64(j.blocks.Workers), max(1, room/perWorker)))
	}
	panels, own := j.room*3/5, j.r.Describe().Memory
	if own > 0 {
		panels = own - residentBytes(j.q) - residentBytes(j.c)
	}
	if j.tune.Panels > 0 {
		panels = j.tune.Panels
	}
	b.regionRows, b.regionLanes = b.rowPanels, b.lanePanels
	if all := bytes(b.rowPanels) + bytes(b.lanePanels); all <= panels {
		if own == 0 {
			j.room -= all
		}
		j.room -= j.room / 4 // reserved for workers, so that the plan does not depend on their number
		return true
	}
	if rest := panels - bytes(b.rowPanels); rest >= panels/4 {
		b.regionLanes = int(rest / bytes(1))
	} else {
		b.regionRows, b.regionLanes = int(panels*3/4/bytes(1)), int(panels/4/bytes(1))
	}
	b.regionRows, b.regionLanes = min(b.regionRows, b.rowPanels), min(b.regionLanes, b.lanePanels)
	if b.regionRows < min(leastRegions, b.rowPanels) || b.regionLanes < min(leastRegions, b.lanePanels) {
		return false
	}
	if j.outOfCore = true; own > 0 {
		j.room -= j.room / 4
		return true
	}
	j.room -= panels
	j.room /= 2
	return true
}

// residentBytes returns the size of the device's copy of an operand.
func residentBytes(o *device.Operand) int64 {
	if o.Resident == nil {
		return 0
	}
	return device.CopyBytes(o.N, o.Dim)
}

// setScales chooses the powers of two that scale vectors to lengths near 1.
func (b *bounded) setScales(ctx context.Context, j *job) error {
	b.scaleRows, b.scaleLanes = 1, 1
	if b.metric != kernels.Cosine {
		rows, err := largest(ctx, j.c.Norms)
		if err != nil {
			return err
		}
		lanes, err := largest(ctx, j.q.Norms)
		if err != nil {
			return err
		}
		b.scaleRows, b.scaleLanes = device.PowerOfTwo([]float64{rows}), device.PowerOfTwo([]float64{lanes})
	}
	b.unit = b.scaleRows * b.scaleLanes
	if b.metric == kernels.L2 {
		b.scaleRows = min(b.scaleRows, b.scaleLanes)
		b.scaleLanes, b.unit = b.scaleRows, b.scaleRows
	}
	return nil
}

// largest returns the largest norm.
func largest(ctx context.Context, norms []float64) (x float64, err error) {
	err = workers.Over(ctx, len(norms), func(from, to int) { x = max(x, slices.Max(norms[from:to])) })
	return x, err
}

// cut chooses the tasks: at least 64, at least 16 per region, and not longer than the device asks for. A requested tile
// size (Resources.TileRows) may make tasks up to four times as long. Regions become whole numbers of tasks.
func (b *bounded) cut(r *device.Resources) {
	tiles := max(1, r.Describe().CountWork/(device.Panel*device.Panel*(b.dim+consumeWork)))
	if r.TileRows > 0 {
		step := min(workers.Ceil(r.TileRows, device.Panel), max(1, int(2*math.Sqrt(float64(tiles)))))
		b.rowStep, b.laneStep = min(step, b.regionRows, device.MaxSide), min(step, b.regionLanes, device.MaxSide)
	} else {
		tiles = workers.Clamp(min(b.rowPanels*b.lanePanels/64, b.regionRows*b.regionLanes/16), 1, tiles)
		b.rowStep = min(b.regionRows, max(1, int(math.Sqrt(float64(tiles)))))
		b.laneStep = min(b.regionLanes, max(1, tiles/b.rowStep), device.MaxSide)
	}
	if b.regionRows < b.rowPanels {
		b.regionRows -= b.regionRows % b.rowStep
	}
	if b.regionLanes < b.lanePanels {
		b.regionLanes -= b.regionLanes % b.laneStep
	}
	b.columns = workers.Ceil(b.lanePanels, b.laneStep)
	b.tasks = b.columns * workers.Ceil(b.rowPanels, b.rowStep)
}

// block returns the panels of a task.
func (b *bounded) block(task int) (row0, row1, lane0, lane1 int) {
	row0, lane0 = task/b.columns*b.rowStep, task%b.columns*b.laneStep
	return row0, min(row0+b.rowStep, b.rowPanels), lane0, min(lane0+b.laneStep, b.lanePanels)
}

// run returns a run of a task's n entries.
func (b *bounded) run(task int32, n int) run {
	row0, _, lane0, _ := b.block(int(task))
	return run{task: task, row: int32(row0 * device.Panel), lane: int32(lane0 * device.Panel), n: int32(n)}
}

// pair returns the query and the context of an entry of a task.
func (b *bounded) pair(task int, at uint32) (query, context int32) {
	row0, _, lane0, _ := b.block(task)
	return through(b.laneAt, lane0*device.Panel+int(at&0xffff)), through(b.rowAt, row0*device.Panel+int(at>>16))
}

// value converts a score to the exact counterpart of a tile's value; score is the inverse.
func (b *bounded) value(score float64) float64 {
	if b.biased {
		return closeness(b.metric, score) * b.unit
	}
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
	if b.biased {
		return closeness(b.metric, value/b.unit)
	}
	switch b.metric {
	case kernels.IP:
		return value / b.unit
	case kernels.L2:
		return math.Sqrt(max(0, -2*value)) / b.unit
	}
	return min(max(value, -1), 1)
}

// valueOf and close are value and score of closeness.
func (b *bounded) valueOf(close float64) float64 { return b.value(closeness(b.metric, close)) }
func (b *bounded) close(value float64) float64   { return closeness(b.metric, b.score(value)) }

// rank converts a rank by score to a rank by value, and back: distances decrease as values increase.
func (b *bounded) rank(r, total int64) int64 {
	if b.metric == kernels.L2 {
		return total - 1 - r
	}
	return r
}

// up rounds to float32, towards +∞.
func up(x float64) float32 { return -scan.Down(-x) }
