package engine

import (
	"context"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/sluice-rag/sluice/kernels/ref"
)

// Exact quantiles without keeping all values: the order statistics that type 7 needs lie, but for
// rare bad luck, between two values of a seeded sample around their rank. The pass counts what is
// below and keeps what is inside; a rank that fell outside, or whose bracket did not fit the memory,
// is narrowed down by counting passes over the ordered bit patterns of float64.

// ranks are the order statistics that the quantiles need, ascending, distinct.
func (j *job) ranks() []int64 {
	var ranks []int64
	for _, p := range j.in.Quantiles {
		r, f := ref.Rank7(j.negative.total, p)
		ranks = append(ranks, r)
		if f > 0 {
			ranks = append(ranks, r+1)
		}
	}
	slices.Sort(ranks)
	return slices.Compact(ranks)
}

// brackets sets the edges and what is kept between them.
func (j *job) brackets(ctx context.Context) error {
	total := j.negative.total
	if len(j.in.Quantiles) == 0 || total == 0 || total <= min(j.e.tune.keepAll, j.room) {
		j.edges, j.keep = newRanker(nil), []bool{len(j.in.Quantiles) > 0}
		return nil
	}
	sample, err := j.sample(ctx, max(j.e.tune.minSamples, min(total/64, j.e.tune.maxSamples)))
	if err != nil {
		return err
	}
	j.edges, j.keep = bracket(sample, j.ranks(), total)
	return nil
}

// bracket chooses the edges from a sorted sample: 5 standard deviations of a sample quantile's rank
// to each side, open to the end where the sample has none there.
func bracket(sample []float64, ranks []int64, total int64) (*ranker, []bool) {
	type interval struct{ low, high float64 } // ±Inf: open
	var intervals []interval
	var edges []float64
	size := float64(len(sample))
	for _, r := range ranks {
		p := (float64(r) + .5) / float64(total)
		reach := 5*math.Sqrt(size*p*(1-p)) + 3
		iv := interval{math.Inf(-1), math.Inf(1)}
		if i := int(math.Floor(p*size - reach)); i >= 0 && i < len(sample) {
			iv.low = sample[i]
			edges = append(edges, iv.low)
		}
		if i := int(math.Ceil(p*size + reach)); i < len(sample) {
			iv.high = sample[i]
			edges = append(edges, iv.high)
		}
		intervals = append(intervals, iv)
	}
	slices.Sort(edges)
	edges = slices.Compact(edges)
	keep := make([]bool, len(edges)+1)
	for _, iv := range intervals {
		for i := range keep { // class i lies between edge i−1 and edge i
			above := i > 0 && edges[i-1] >= iv.low || math.IsInf(iv.low, -1)
			below := i < len(edges) && edges[i] <= iv.high || math.IsInf(iv.high, 1)
			keep[i] = keep[i] || above && below
		}
	}
	return newRanker(edges), keep
}

// sample scores about size random negatives, in ascending order. It decides on the work only, never
// on the result, so that its seed is no argument.
func (j *job) sample(ctx context.Context, size int64) ([]float64, error) {
	const chunk = 1024
	tasks := int((size + chunk - 1) / chunk)
	found := make([][]float64, tasks)
	err := j.e.each(ctx, tasks, j.plan.workers, func(_, task int) error {
		rng := rand.New(rand.NewPCG(0x51ce, uint64(task)))
		values := make([]float64, 0, chunk)
		for range chunk {
			q, c := rng.IntN(j.q.N), rng.IntN(j.c.N)
			if !j.foreign(q, c) {
				continue
			}
			s, err := j.pair(q, c)
			if err != nil {
				return err
			}
			values = append(values, s)
		}
		found[task] = values
		return nil
	})
	sample := slices.Concat(found...)
	slices.Sort(sample)
	return sample, err
}

// foreign tells whether the pair is in D−, or for a sampled D− in what it is drawn from.
func (j *job) foreign(q, c int) bool {
	own := j.in.Owner[q]
	if j.in.Negatives.Kind == NegativesCrossGroup {
		return j.in.Group[c] != j.in.Group[own]
	}
	return c != int(own)
}

// quantiles fills in the quantiles of D− from what the pass counted and kept.
func (j *job) quantiles(ctx context.Context, all *part) error {
	overflow := j.kept.Load() > j.room
	values := make(map[int64]float64)
	var open []target
	for _, r := range j.ranks() {
		var below int64
		class := 0
		for below+all.class[class] <= r {
			below += all.class[class]
			class++
		}
		switch i := class / 2; {
		case class%2 == 1:
			values[r] = j.edges.keys[i]
		case j.keep[i] && !overflow:
			slices.Sort(all.kept[i]) // ranks of one bracket: sorted already, which costs little
			values[r] = all.kept[i][r-below]
		default:
			t := target{rank: r, below: below, low: key(all.min.Score), high: key(all.max.Score)}
			if i > 0 {
				t.low = max(t.low, key(j.edges.keys[i-1])+1)
			}
			if i < len(j.edges.keys) {
				t.high = min(t.high, key(j.edges.keys[i])-1)
			}
			open = append(open, t)
		}
	}
	all.kept = nil
	if err := j.refine(ctx, open); err != nil {
		return err
	}
	for _, t := range open {
		values[t.rank] = unkey(t.low)
	}
	for i, p := range j.in.Quantiles {
		r, f := ref.Rank7(j.negative.total, p)
		x := values[r]
		if f > 0 {
			x = ref.Interpolate7(x, values[r+1], f)
		}
		j.out.NegativeSummary.Quantiles[i] = x
	}
	return nil
}

// target is an order statistic known to lie in [low, high] (keys), with below values under low.
type target struct {
	rank, below int64
	low, high   uint64
}

// shift makes [low, high] fit refineBins bins of 2^shift keys.
func (t *target) shift() int { return max(0, bits.Len64(t.high-t.low)-bits.Len64(refineBins-1)) }

// refine narrows the targets down to one key each, 12 bits a pass.
func (j *job) refine(ctx context.Context, targets []target) error {
	for slices.ContainsFunc(targets, func(t target) bool { return t.low < t.high }) {
		counts := make([][]int64, j.plan.workers)
		cursors := make([]cursor, j.plan.workers)
		err := j.pass(ctx, func(worker, q0, q1 int) {
			if counts[worker] == nil {
				counts[worker] = make([]int64, len(targets)*refineBins)
			}
			cursors[worker].begin(&j.negative, q0, q1)
		}, func(worker, q, c0 int, scores []float64) {
			for _, s := range cursors[worker].spans(q, c0, c0+len(scores)) {
				for _, x := range scores[s.from-c0 : s.to-c0] {
					k := key(x)
					for i := range targets {
						if t := &targets[i]; k >= t.low && k <= t.high {
							counts[worker][i*refineBins+int((k-t.low)>>t.shift())]++
						}
					}
				}
			}
		})
		if err != nil {
			return err
		}
		for i := range targets {
			targets[i].narrow(counts, i*refineBins)
		}
	}
	return nil
}

// narrow takes the bin that holds the rank; its counts begin at offset in each worker's.
func (t *target) narrow(counts [][]int64, offset int) {
	shift := t.shift()
	for bin := uint64(0); ; bin++ {
		var n int64
		for _, c := range counts {
			if c != nil {
				n += c[offset+int(bin)]
			}
		}
		if t.below+n > t.rank {
			t.low += bin << shift
			t.high = min(t.high, t.low+(1<<shift-1))
			return
		}
		t.below += n
	}
}

// key maps float64 to integers of the same order; unkey is its inverse.
func key(x float64) uint64 {
	b := math.Float64bits(x)
	if b>>63 == 1 {
		return ^b
	}
	return b | 1<<63
}

func unkey(k uint64) float64 {
	if k>>63 == 1 {
		return math.Float64frombits(k &^ (1 << 63))
	}
	return math.Float64frombits(^k)
}

// ranker finds where a value stands among sorted keys in about constant time: equal cells between the
// lowest and the highest key say where to look. The cell of a value never decreases with it (each
// rounded operation is monotone), so that keys of other cells need no comparison.
type ranker struct {
	keys       []float64 // distinct, ascending
	under      []int64   // under[i]: how many of the given values are below keys[i]; one more at the end
	low, scale float64
	first      []int32 // first[c]: the first key of cell c or a later one
}

func newRanker(values []float64) *ranker {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	r := &ranker{}
	for i, x := range sorted {
		if i == 0 || x != sorted[i-1] {
			r.keys, r.under = append(r.keys, x), append(r.under, int64(i))
		}
	}
	r.under = append(r.under, int64(len(sorted)))
	n := len(r.keys)
	cells := min(2*n+1, 1<<20)
	if n > 0 {
		r.low = r.keys[0]
		if s := float64(cells-1) / (r.keys[n-1] - r.low); s <= math.MaxFloat64 {
			r.scale = s // else all keys are (nearly) one: a single cell, searched by bisection
		}
	}
	r.first = make([]int32, cells+1)
	for c, i := 0, 0; c <= cells; c++ {
		for i < n && r.cell(r.keys[i], cells) < c {
			i++
		}
		r.first[c] = int32(i)
	}
	return r
}

func (r *ranker) cell(x float64, cells int) int {
	f := (x - r.low) * r.scale
	if !(f > 0) {
		return 0
	}
	if f >= float64(cells-1) {
		return cells - 1
	}
	return int(f)
}

// find returns how many of the values are below x and how many are not above it.
func (r *ranker) find(x float64) (less, lessEq int64) {
	c := r.cell(x, len(r.first)-1)
	i, end := int(r.first[c]), int(r.first[c+1])
	for end-i > 8 {
		if mid := int(uint(i+end) / 2); r.keys[mid] < x {
			i = mid + 1
		} else {
			end = mid
		}
	}
	for i < end && r.keys[i] < x {
		i++
	}
	if i < len(r.keys) && r.keys[i] == x {
		return r.under[i], r.under[i+1]
	}
	return r.under[i], r.under[i]
}
