package statistics

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/sluice-rag/sluice/engine/distribution"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu/scan"
	"github.com/sluice-rag/sluice/kernels/cpu/tiles"
)

// Part holds the counts of a block of contexts × a block of queries, made with given brackets. Rows are named by ids,
// so that a part stays valid when the input grows or shrinks. Tile values are off by at most epsilon, whatever device
// computed them.
type Part struct {
	config            [sha256.Size]byte // digest of brackets, metric and dimension, which must agree between parts
	metric            kernels.Metric
	contexts, queries []uint64 // ids, in packed order
	epsilon, unit     float64
	tiles             float64 // number of tiles whose sums were rounded
	spread            float64 // pairs whose errors are in the sums, divided by pairs: above 1 once some were removed
	counted           int64
	sum, sum2         tiles.Sum
	below, bins       []int64
	kept              []run
	best              [2][]partBest // per query of the part; Context is −1 if there is no best pair
}

// scoreBytes holds canonical scores as little-endian bytes, so that those of a mapped file are read only when they are
// needed.
type scoreBytes []byte

func (s scoreBytes) at(i int) float64 {
	return math.Float64frombits(binary.LittleEndian.Uint64(s[8*i:]))
}

// partBest is a maximum; the context is a position in the ids.
type partBest struct {
	context int32
	score   float64
}

// Brackets chooses brackets for the input, and for inputs that grow out of it as long as no quantile's rank moves by
// more than slack, a share of all ranks. With Interval, pairs within them are to be counted in cells.
func Brackets(ctx context.Context, r *device.Resources, t Tuning, in distribution.Input,
	slack float64) (*distribution.Brackets, error) {
	t.Slack = slack
	j, err := prepareJob(ctx, r, t, in)
	if err != nil {
		return nil, err
	}
	defer j.free()
	out := &distribution.Brackets{Metric: in.Metric, Negatives: in.Negatives.Kind, Bins: in.Bins,
		Biased: in.Bias != nil, Sample: in.Sample}
	if in.Interval {
		out.Cells = rangeCells
	}
	if j.negatives.sampled() {
		return nil, errSampled
	}
	if j.q.N == 0 || j.negatives.total == 0 {
		return nil, fmt.Errorf("engine: brackets: %w: no negatives", kernels.ErrEmpty)
	}
	j.tune.Spread = j.spread(t.PartBytes)
	b := &bounded{dtype: j.dtype, metric: in.Metric, counting: true, biased: out.Biased}
	if err := b.setScales(ctx, j); err != nil {
		return nil, err
	}
	b.epsilon = 1e-5 // for float32 and formats of similar precision; coarser formats keep more
	b.setStatistics(j)
	sample, err := j.sample(ctx, b)
	if err != nil {
		return nil, err
	}
	if len(sample) < 64 || slices.Min(sample) == slices.Max(sample) { // keep everything
		out.Ends = keepAll()
		out.Low, out.High = -1, 1
		return out, nil
	}
	b.first = wanted{low: minusInf, high: plusInf}
	if err := b.first.choose(ctx, j, b, sample, b.statistics); err != nil {
		return nil, err
	}
	w := &b.first
	scores := func(low, high float64) [2]float64 {
		return mirrored(b.metric, [2]float64{b.close(low), b.close(high)})[0]
	}
	out.Ends = scores(float64(max(w.low, w.endLow)), float64(min(w.high, w.endHigh)))
	for _, r := range w.brackets {
		out.Ranges = append(out.Ranges, scores(float64(r.low), float64(r.high)))
	}
	slices.SortFunc(out.Ranges, func(a, b [2]float64) int { return cmp.Compare(a[0], b[0]) })
	span := scores(w.from, w.to)
	out.Low, out.High = span[0]-(span[1]-span[0])/8, span[1]+(span[1]-span[0])/8
	if in.Metric.Ascending() && !out.Biased {
		out.Low = max(0, out.Low)
	}
	out.Share = w.expected / float64(j.negatives.total)
	if t.PartBytes >= entryBytes*j.negatives.total {
		out.Ranges, out.Ends = nil, keepAll()
	}
	return out, nil
}

var errSampled = fmt.Errorf("engine: %w: sampled negatives are computed at once, not in parts", distribution.ErrPart)

// keepAll returns ends with which brackets keep everything.
func keepAll() [2]float64 { return [2]float64{math.MaxFloat64, -math.MaxFloat64} }

const (
	partBins   = 1 << 12 // smallest number of cells of a part's histogram
	rangeCells = 1 << 10 // Brackets.Cells
)

// wantedOf converts brackets to tile values that are off by at most epsilon; it is an error if they then touch.
func (b *bounded) wantedOf(of *distribution.Brackets, epsilon float64) (w wanted, err error) {
	w = wanted{best: true, low: minusInf, high: plusInf}
	w.from, w.to = b.span()
	ranges, low, high, all := closeRanges(of)
	if all {
		w.low = plusInf
		return b.binned(w, of), nil
	}
	w.low, w.high = up(b.valueOf(low)+epsilon), scan.Down(b.valueOf(high)-epsilon)
	last := w.low
	for _, r := range ranges {
		x := bracket{scan.Down(b.valueOf(r[0]) - epsilon), up(b.valueOf(r[1]) + epsilon)}
		if !(x.low > last) || !(x.high >= x.low) {
			return w,
				fmt.Errorf("engine: %w: ranges that touch once widened by the bound %.2g: take a finer format",
					kernels.ErrArgument, epsilon)
		}
		last = x.high
		w.brackets = append(w.brackets, x)
	}
	if !(w.high > last) || len(ranges) > device.MaxBrackets {
		return w, fmt.Errorf("engine: %w: %d ranges (at most %d) that end at %v, the upper end begins at %v",
			kernels.ErrArgument, len(ranges), device.MaxBrackets, last, w.high)
	}
	return b.binned(w, of), nil
}

// binned adds the histogram of parts to w.
func (b *bounded) binned(w wanted, of *distribution.Brackets) wanted {
	if of.Bins == 0 {
		return w
	}
	unit := b.unit
	if b.metric == kernels.Cosine {
		unit = 1
	}
	w.bins = binsOf(of)
	w.binLow, w.binScale = float32(of.Low*unit), float32(float64(w.bins)/((of.High-of.Low)*unit))
	return w
}

// binsOf returns the number of cells of a part's histogram.
func binsOf(of *distribution.Brackets) int { return of.Bins * workers.Ceil(partBins, of.Bins) }

// configOf returns a digest of what parts must have in common to be merged.
func configOf(of *distribution.Brackets, dim int) (sum [sha256.Size]byte, err error) {
	text, err := json.Marshal(of)
	if err != nil {
		return sum, fmt.Errorf("engine: brackets: %w: %w", kernels.ErrNonFinite, err)
	}
	return sha256.Sum256(fmt.Appendf(text, " dimension %d", dim)), nil
}

// ComputePart counts a block of the input's pairs.
func ComputePart(ctx context.Context, r *device.Resources, t Tuning, in distribution.Input, of *distribution.Brackets,
	share distribution.Block) (*Part, error) {
	rows, lanes, err := share.Lists(in)
	if err != nil {
		return nil, err
	}
	p, j, err := computePart(ctx, r, t, in, of, &block{rows, lanes}, nil)
	if err != nil {
		return nil, err
	}
	j.free()
	return p, nil
}

// computePart counts a block. After an error there is no job; otherwise the caller must free it. finish receives the
// part, which has everything but the kept entries; nil moves them into it.
func computePart(ctx context.Context, r *device.Resources, t Tuning, in distribution.Input, of *distribution.Brackets,
	share *block, finish func(p *Part, j *job, c *counts) error) (_ *Part, j *job, err error) {
	if finish == nil {
		finish = (*Part).takeKept
	}
	if of == nil || of.Metric != in.Metric || of.Negatives != in.Negatives.Kind || of.Biased && in.Bias == nil {
		return nil, nil,
			fmt.Errorf("engine: %w: brackets of another metric or choice of negatives", distribution.ErrPart)
	}
	in.Bins, in.Interval = 0, false
	if j, err = prepareJob(ctx, r, t, in); err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			j.free()
			j = nil
		}
	}()
	if in.Bias != nil {
		return nil, j,
			fmt.Errorf("engine: %w: pairs with a bias are computed at once, not in parts", distribution.ErrPart)
	}
	if j.negatives.sampled() {
		return nil, j, errSampled
	}
	p := &Part{metric: in.Metric, unit: 1, spread: 1}
	if p.config, err = configOf(of, in.Contexts.Dim); err != nil {
		return nil, j, err
	}
	if len(share.rows) == 0 || len(share.lanes) == 0 {
		p.name(&j.in, share.rows, share.lanes)
		p.below = make([]int64, len(of.Ranges))
		p.bins = make([]int64, min(of.Bins, 1)*binsOf(&distribution.Brackets{Bins: max(of.Bins, 1)}))
		return p, j, nil
	}
	if err := j.positives(ctx, share.lanes); err != nil {
		return nil, j, err
	}
	b, err := j.newBounded(ctx, share)
	if err != nil {
		return nil, j, err
	}
	if j.bounded = b; b == nil {
		return nil, j,
			fmt.Errorf("engine: part: %w: %d bytes have no room for panels", kernels.ErrMemoryLimit, r.MemLimit)
	}
	if b.first, err = b.wantedOf(of, b.epsilon); err != nil {
		return nil, j, err
	}
	b.first.expected = math.Ceil(float64(len(share.rows)) * float64(len(share.lanes)) / 64)
	if err = j.openLog(ctx, fmt.Sprintf("part %x", p.config)); err != nil {
		return nil, j, err
	}
	c := newCounts(&b.first)
	if err = j.count(ctx, &b.first, firstPass, b.allTasks(), c); err == nil {
		if err = p.take(ctx, j, share, c); err == nil {
			err = finish(p, j, c)
		}
	}
	if err = j.closeLog(err); err != nil {
		return nil, j, err
	}
	j.progress.End()
	return p, j, nil
}

// name sets the ids of the part's rows.
func (p *Part) name(in *distribution.Input, rows, lanes []int32) {
	for _, row := range rows {
		p.contexts = append(p.contexts, in.ContextID(row))
	}
	for _, q := range lanes {
		p.queries = append(p.queries, in.QueryID(q))
	}
	for kind := range p.best {
		p.best[kind] = slices.Repeat([]partBest{{context: -1}}, len(lanes))
	}
}

// take moves the counts into the part, without the kept entries.
func (p *Part) take(ctx context.Context, j *job, share *block, c *counts) error {
	b := j.bounded
	if c.full {
		return fmt.Errorf("engine: part: %w: no room for what the brackets keep", kernels.ErrMemoryLimit)
	}
	if c.bestLost {
		if err := j.canonicalMaxima(ctx, share.lanes, share.rows, nil); err != nil {
			return err
		}
	}
	p.name(&j.in, b.rowAt, b.laneAt)
	at, err := inverse(ctx, b.rowAt, j.c.N)
	if err != nil {
		return err
	}
	for l, q := range b.laneAt {
		if row := j.out.BestOtherRow[q]; row >= 0 {
			p.best[bestOther][l] = partBest{through(at, int(row)), j.out.BestOther[q]}
		}
		if row := j.out.BestRow[q]; row >= 0 {
			p.best[bestAll][l] = partBest{through(at, int(row)), j.out.Best[q]}
		}
	}
	p.epsilon, p.unit, p.tiles = b.epsilon, b.unit, float64(b.rowPanels)*float64(b.lanePanels)
	p.counted, p.sum, p.sum2, p.below, p.bins = c.counted, c.sum, c.sum2, c.below, c.bins
	return nil
}

// takeKept moves the kept entries into the part.
func (p *Part) takeKept(j *job, c *counts) error {
	for _, r := range c.kept {
		entries, err := j.loadRun(r)
		if err != nil {
			return err
		}
		p.kept = append(p.kept, newRun(r.row, r.lane, entries))
	}
	return nil
}

// Bytes returns the approximate memory of the part, which is also its encoded size.
func (p *Part) Bytes() int64 {
	n := int64(8*(len(p.contexts)+len(p.queries)+len(p.below)+len(p.bins)) + 12*(len(p.best[0])+len(p.best[1])))
	for _, r := range p.kept {
		n += runBytes + entryBytes*int64(len(r.entries)) + int64(len(r.scores))
	}
	return n
}
