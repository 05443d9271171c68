package statistics

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/engine/distribution"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// Compute computes D+, D− and the maximum distribution. All pairs are counted once by bounded kernels (pass.go).
// Brackets from a sample tell which few pairs can be the quantiles, and only these get canonical scores (resolve.go).
// What the bounds leave open, and small inputs, are computed by canonical scores alone (canonical.go).
func Compute(ctx context.Context, r *device.Resources, t Tuning, in distribution.Input) (*distribution.Result, error) {
	j, err := newJob(ctx, r, t, in)
	if err != nil {
		return nil, err
	}
	defer j.free()
	j.out.DType = "f64"
	switch {
	case j.q.N == 0:
		j.out.NegativeSummary = j.noSummary()
		err = j.summaries(ctx)
	case j.bounded == nil:
		if err = j.canonicalMaxima(ctx, nil, nil, nil); err == nil {
			err = j.finish(ctx, nil)
		}
	default:
		first := newCounts(&j.bounded.first)
		if err = j.openLog(ctx, "whole"); err != nil {
			return nil, err
		}
		if err = j.count(ctx, &j.bounded.first, firstPass, j.bounded.allTasks(), first); err == nil {
			err = j.finishBounded(ctx, first)
		}
		err = j.closeLog(err)
	}
	if err == nil {
		err = j.setSample(ctx)
	}
	if err != nil {
		return nil, err
	}
	j.describe()
	j.progress.End()
	return j.out, nil
}

// job is one call of Compute.
type job struct {
	r         *device.Resources
	tune      Tuning
	in        distribution.Input
	q, c      *device.Operand
	out       *distribution.Result
	dtype     kernels.DType
	negatives negatives
	blocks    device.Blocks // of canonical passes
	room      int64         // memory for what a job keeps, in bytes
	perWorker int64         // memory of a canonical pass
	bounded   *bounded      // nil when all scores are canonical
	sampled   []float32     // the sample of values, which is the same in both formats
	progress  *workers.Meter
	log       *checkpoint // nil without Checkpoint
	spill     *spill      // nil: entries are kept in memory only
	outOfCore bool        // panels of a region at a time
	held      func()      // releases the device's copies of the rows; nil if there are no copies
	passes    int         // number of passes over all pairs so far
	reasons   []string    // why more work than one pass was needed
}

// Tuning holds the sizes that change the speed of Compute but none of its exact results; tests vary them.
type Tuning struct {
	Canonical  int64 // inputs of up to this many pairs are scored canonically throughout
	KeepAll    int64 // up to this many negatives, all are kept
	MinSamples int   // smallest number of scored pairs for placing the brackets
	MaxSamples int
	Slack      float64 // additional range of the brackets, as a share of all ranks
	Spread     float64 // the same at the median, and less in the tails (spreadAt)
	PartBytes  int64   // bytes that a part may keep: Spread follows from it; 0: Slack decides
	Reach      float64 // of a bracket, in standard deviations of the sample's rank
	Kept       int64   // entries that may be kept; 0 = what the memory limit allows
	Scores     int64   // of windows that are settled at once; 0 = what the memory limit allows
	// Recheck is the number of pairs of a window that, up to a tenth of all, are rechecked rather than left to a
	// canonical pass.
	Recheck int64
	Record  time.Duration // between a worker's records in a checkpoint
	Panels  int64         // bytes of packed sets at a time; 0 = what the memory limit allows
	Spill   int64         // bytes of a temporary file for kept entries that exceed the memory limit

	counted func(*pass) // of tests: called when a task has been counted, before its entries are kept
}

// DefaultTuning returns the sizes that the engine uses.
func DefaultTuning() Tuning {
	return Tuning{Canonical: 1 << 16, KeepAll: 1 << 17, MinSamples: 1 << 12, MaxSamples: 1 << 25, Reach: 3.5,
		Recheck: 1 << 16, Record: time.Second, Spill: 16 << 30}
}

// describe records in the result how the work was done.
func (j *job) describe() {
	w, b := &j.out.Way, j.bounded
	w.Passes = j.passes
	w.Device = j.r.Describe().Name
	w.Choice = j.r.Choose(device.OpDistribution, device.Shape{A: j.q.N, B: j.c.N, Dim: j.c.Dim, DType: j.dtype},
		device.Residency{A: j.q.Resident != nil, B: j.c.Resident != nil})
	if b == nil {
		if j.q.N > 0 {
			w.Reason = "canonical scores throughout: few pairs, or no room for panels"
			if j.in.Bias != nil {
				w.Reason = "canonical scores throughout: pairs have a bias"
			}
		}
		return
	}
	w.Regions = workers.Ceil(b.rowPanels, b.regionRows) * workers.Ceil(b.lanePanels, b.regionLanes)
	var reasons []string
	if w.Regions > 1 {
		reasons = append(reasons, "the memory limit has no room for all panels")
	}
	if j.spill != nil {
		if w.Spilled = j.spill.used; w.Spilled > 0 {
			reasons = append(reasons, "kept pairs, or their scores, went through a temporary file")
		}
	}
	reasons = append(reasons, j.reasons...)
	w.Reason = strings.Join(reasons, "; ")
}

// free releases the packed sets, the copies of rows and the spill file.
func (j *job) free() {
	if j.bounded != nil {
		j.bounded.free()
	}
	if j.held != nil {
		j.held()
	}
	_ = j.spill.close() // the file holds nothing that is still needed
}

// Approximate memory of a job, in bytes.
const (
	bytesPerQuery   = 64 // norm, order, own context, marks, D+ and the maxima in order
	bytesPerContext = 24 // norm, order and its inverse, group
)

// newJob checks the input, computes D+ and, unless all scores will be canonical, plans the passes.
func newJob(ctx context.Context, r *device.Resources, t Tuning, in distribution.Input) (_ *job, err error) {
	j, err := prepareJob(ctx, r, t, in)
	if err != nil || j.q.N == 0 {
		return j, err
	}
	defer func() {
		if err != nil {
			j.free()
		}
	}()
	if err = j.positives(ctx, ascendingFrom(0, j.q.N)); err != nil {
		return nil, err
	}
	if in.Bias == nil && (int64(j.q.N)*int64(j.c.N) > t.Canonical || in.DType != nil) {
		err = j.chooseFormat(ctx)
	}
	if j.bounded == nil {
		j.room -= int64(j.blocks.Workers) * j.perWorker
	}
	return j, err
}

// chooseFormat plans the passes: in 16-bit codes, where the CPU has them and a sample says that their bound leaves few
// enough pairs to canonical scores, else in the format asked for, or the finest.
func (j *job) chooseFormat(ctx context.Context) (err error) {
	plan := func(t kernels.DType) (err error) {
		j.dtype = t
		if j.bounded, err = j.newBounded(ctx, nil); err == nil && j.bounded != nil {
			err = j.chooseBrackets(ctx, j.bounded)
		}
		return err
	}
	finest := j.dtype
	if j.in.DType == nil && !j.in.Interval && finest == kernels.F32 && j.r.Has(kernels.I16) &&
		!j.negatives.sampled() && j.negatives.total > j.tune.KeepAll {
		room, outOfCore, workers := j.room, j.outOfCore, j.blocks.Workers
		err := plan(kernels.I16)
		if err != nil || j.bounded != nil && j.bounded.first.near <= coarseShare*float64(j.negatives.total) {
			return err
		}
		if j.bounded != nil {
			j.bounded.free()
		}
		j.room, j.outOfCore, j.blocks.Workers = room, outOfCore, workers
	}
	return plan(finest)
}

// coarseShare is the share of pairs up to which canonical scores take less time than tiles of 16-bit codes save.
const coarseShare = .01

// prepareJob checks the input, computes norms and divides the memory. The caller must free the job.
func prepareJob(ctx context.Context, r *device.Resources, t Tuning, in distribution.Input) (*job, error) {
	queries, contexts, err := device.Views("queries", in.Queries, "contexts", in.Contexts, in.Metric)
	if err != nil {
		return nil, err
	}
	if err := in.Check(ctx); err != nil {
		return nil, err
	}
	j := &job{r: r, tune: t, in: in, q: &queries, c: &contexts, out: newDistribution(queries.N, in),
		dtype: r.Accurate()}
	if in.DType != nil {
		j.dtype = *in.DType
	}
	if !r.Has(j.dtype) {
		return nil, fmt.Errorf("engine: %w: %s has no tiles of %s", kernels.ErrISA, r.Describe().ISA, j.dtype)
	}
	if err := r.PrepareBoth(ctx, j.q, j.c, kernels.Cosine); err != nil { // the norms also determine the scale
		return nil, err
	}
	if queries.N == 0 {
		return j, nil
	}
	m, n := j.q.N, j.c.N
	if j.negatives, err = newNegatives(ctx, in); err != nil {
		return nil, err
	}
	fixed := int64(m)*bytesPerQuery + int64(n)*bytesPerContext + 8*int64(in.Bins)
	perWorker := 8*int64(in.Bins) + 2*int64(len(in.Quantiles))*refineBins*8 + 4*int64(j.negatives.perQuery)
	if j.blocks, err = r.Plan(m, n, j.q.Dim, fixed, perWorker); err != nil {
		return nil, err
	}
	j.blocks.Span = workers.Ceil(n, j.blocks.Contexts) // one task sums a query in the order of contexts
	j.perWorker = perWorker + j.blocks.Bytes()
	j.room = r.MemLimit - fixed
	passes := int64(1)
	if in.Bins > 0 && j.negatives.total > 0 {
		passes = 2
	}
	j.progress = r.Meter(passes * int64(m) * int64(n))
	if t.Spill > 0 && t.Kept == 0 {
		j.spill = &spill{limit: min(t.Spill, max(freeSpill, int64(m)*int64(n)*spillPerPair))}
	}
	if own := r.Describe().Memory; own > 0 &&
		device.CopyBytes(j.q.N, j.q.Dim)+device.CopyBytes(j.c.N, j.c.Dim) > own/2 {
		return j, nil // sets need the device's memory; rows are read from the process's memory
	}
	if j.held, err = r.HoldBoth(j.q, j.c); err != nil {
		j.free()
		return nil, err
	}
	return j, nil
}

// finishBounded continues from a complete first pass.
func (j *job) finishBounded(ctx context.Context, first *counts) error {
	j.out.DType = j.bounded.dtype.String()
	first.endsLost = first.endsLost || !j.bounded.endsFound(first)
	if first.bestLost {
		j.reasons = append(j.reasons, "too many equally good pairs: maxima from canonical scores")
		if err := j.canonicalMaxima(ctx, nil, nil, first); err != nil {
			return err
		}
	}
	return j.finish(ctx, first)
}

// finish computes the summaries; D+ and the maxima are known. first is nil if all scores are canonical.
func (j *job) finish(ctx context.Context, first *counts) error {
	d := j.out
	if err := j.summaries(ctx); err != nil {
		return err
	}
	d.NegativeSummary = j.noSummary()
	switch {
	case j.negatives.total == 0:
		return nil
	case first == nil || !j.bounded.counting:
		return j.canonicalNegatives(ctx)
	}
	return j.boundedNegatives(ctx, first)
}

// summaries computes the summaries of D+ and of the maxima, whose parts of both kinds are known.
func (j *job) summaries(ctx context.Context) (err error) {
	d := j.out
	if err := j.finishMaxima(ctx); err != nil {
		return err
	}
	if d.PositiveSummary, err = j.summary(ctx, d.Positive, j.in.Owner); err != nil {
		return err
	}
	d.Max, err = j.summary(ctx, d.Best, d.BestRow)
	return err
}

func newDistribution(m int, in distribution.Input) *distribution.Result {
	d := &distribution.Result{
		Positive: make([]float64, m),
		Best:     make([]float64, m), BestOther: make([]float64, m),
		BestRow: make([]int32, m), BestOtherRow: make([]int32, m),
	}
	for q := range m {
		d.Best[q], d.BestOther[q] = in.Metric.Worst(), in.Metric.Worst()
		d.BestRow[q], d.BestOtherRow[q] = -1, -1
	}
	if in.Bins > 0 {
		d.NegativeHistogram = make([]int64, in.Bins)
	}
	return d
}

// positives computes D+ for some queries.
func (j *job) positives(ctx context.Context, queries []int32) error {
	const chunk = 1024
	n := len(queries)
	return j.r.Pool.Each(ctx, workers.Ceil(n, chunk), j.blocks.Workers, func(_, task int) error {
		list := queries[task*chunk : min(n, (task+1)*chunk)]
		own, scores := make([]int32, len(list)), make([]float64, len(list))
		for i, q := range list {
			own[i] = j.in.Owner[q]
		}
		if err := j.biasedPairs(ctx, scores, list, own); err != nil {
			return err
		}
		for i, q := range list {
			j.out.Positive[q] = scores[i]
		}
		return nil
	})
}

// pairs writes the canonical scores of pairs of queries and contexts.
func (j *job) pairs(out []float64, queries, contexts []int32) error {
	return j.r.Pairs(j.in.Metric, out, j.q.Rows, queries, j.c.Rows, contexts)
}

// summary summarises one score per query, with that query's context: ref.Summarise in pieces, so that ctx is checked
// between them.
func (j *job) summary(ctx context.Context, scores []float64, contexts []int32) (distribution.Summary, error) {
	s := j.noSummary()
	if len(scores) == 0 {
		return s, ctx.Err()
	}
	x0, s1, s2 := scores[0], 0., 0.
	low, high := noPair, noPair
	err := workers.Over(ctx, len(scores), func(from, to int) {
		for q := from; q < to; q++ {
			d := scores[q] - x0
			s1 += d
			s2 += float64(d * d)
			p := ref.Pair{Query: int32(q), Context: contexts[q], Score: scores[q]}
			if q == 0 || p.Score < low.Score {
				low = p
			}
			if q == 0 || p.Score > high.Score {
				high = p
			}
		}
	})
	if err != nil {
		return s, err
	}
	sorted := slices.Clone(scores) // as far as quantiles are read
	var ranks []int
	for _, r := range j.order(int64(len(scores))) {
		ranks = append(ranks, int(r))
	}
	if err := selectRanks(ctx, sorted, ranks); err != nil {
		return s, err
	}
	s.N = int64(len(scores))
	s.Mean, s.Std = ref.Moments(s.N, x0, s1, s2)
	for i, p := range j.in.Quantiles {
		s.Quantiles[i] = ref.Quantile7(sorted, p)
	}
	setExtremes(&s, low, high)
	return s, nil
}

// noSummary returns the summary of an empty distribution, with room for the quantiles.
func (j *job) noSummary() distribution.Summary {
	s := distribution.Summary{Quantiles: make([]float64, len(j.in.Quantiles))}
	setExtremes(&s, noPair, noPair)
	if j.in.Interval {
		s.Low, s.High = s.Quantiles, s.Quantiles
	}
	return s
}

func setExtremes(s *distribution.Summary, low, high ref.Pair) {
	s.Min, s.MinQuery, s.MinContext = low.Score, low.Query, low.Context
	s.Max, s.MaxQuery, s.MaxContext = high.Score, high.Query, high.Context
}

// before orders pairs with equal scores.
func before(a, b ref.Pair) bool {
	if a.Query != b.Query {
		return a.Query < b.Query
	}
	return a.Context < b.Context
}

// lower keeps the lowest pair and higher the highest one; a Context of −1 means that there is no pair yet.
func lower(p *ref.Pair, x ref.Pair) {
	if x.Context >= 0 && (p.Context < 0 || x.Score < p.Score || x.Score == p.Score && before(x, *p)) {
		*p = x
	}
}

func higher(p *ref.Pair, x ref.Pair) {
	if x.Context >= 0 && (p.Context < 0 || x.Score > p.Score || x.Score == p.Score && before(x, *p)) {
		*p = x
	}
}

var noPair = ref.Pair{Query: -1, Context: -1}

// ascendingFrom returns the rows [from, to).
func ascendingFrom(from, to int) []int32 {
	rows := make([]int32, to-from)
	for i := range rows {
		rows[i] = int32(from + i)
	}
	return rows
}
