package engine

import (
	"context"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// part is what one worker knows of D− after the pass. Parts are merged by addition and comparison
// of integers and pairs, so that neither tiling nor threads leave a trace.
type part struct {
	min, max ref.Pair
	// less and lessEq sum, over the negatives, how many positives are below and not above.
	less, lessEq int64
	// class[2i] counts the values between edge i−1 and edge i, class[2i+1] those equal to edge i.
	class []int64
	kept  [][]float64 // kept[i]: the values of class 2i, where job.keep[i]
}

func (p *part) init(j *job) {
	p.min, p.max = ref.Pair{Context: -1}, ref.Pair{Context: -1}
	p.class = make([]int64, 2*len(j.keep)-1)
	p.kept = make([][]float64, len(j.keep))
}

func (p *part) merge(o *part) {
	p.less, p.lessEq = p.less+o.less, p.lessEq+o.lessEq
	for i, n := range o.class {
		p.class[i] += n
	}
	for i, values := range o.kept {
		if p.kept[i] == nil {
			p.kept[i] = values
		} else {
			p.kept[i] = append(p.kept[i], values...)
		}
	}
	if o.min.Context >= 0 {
		p.lower(o.min)
		p.higher(o.max)
	}
}

func (p *part) lower(x ref.Pair) {
	if p.min.Context < 0 || x.Score < p.min.Score || x.Score == p.min.Score && before(x, p.min) {
		p.min = x
	}
}

func (p *part) higher(x ref.Pair) {
	if p.max.Context < 0 || x.Score > p.max.Score || x.Score == p.max.Score && before(x, p.max) {
		p.max = x
	}
}

func before(a, b ref.Pair) bool {
	if a.Query != b.Query {
		return a.Query < b.Query
	}
	return a.Context < b.Context
}

// separation is the Mann–Whitney probability from the counts.
func (p *part) separation(j *job) float64 {
	positives, negatives := int64(j.q.N), j.negative.total
	closer, equal := positives*negatives-p.lessEq, p.lessEq-p.less
	if j.in.Metric == kernels.L2 {
		closer = p.less
	}
	return float64(2*closer+equal) / 2 / (float64(positives) * float64(negatives))
}

// collect goes over all pairs: maxima per query, and of D− the sums per query and a part per worker.
func (j *job) collect(ctx context.Context) ([]*part, error) {
	j.s1, j.s2 = make([]float64, j.q.N), make([]float64, j.q.N)
	parts := make([]*part, j.plan.workers)
	cursors := make([]cursor, j.plan.workers)
	err := j.pass(ctx, func(worker, q0, q1 int) {
		if parts[worker] == nil {
			parts[worker] = new(part)
			parts[worker].init(j)
		}
		cursors[worker].begin(&j.negative, q0, q1)
	}, func(worker, q, c0 int, scores []float64) {
		j.maximum(&cursors[worker], q, c0, scores)
		for _, s := range cursors[worker].spans(q, c0, c0+len(scores)) {
			j.add(parts[worker], q, s.from, scores[s.from-c0:s.to-c0])
		}
	})
	used := parts[:0]
	for _, p := range parts {
		if p != nil {
			used = append(used, p)
		}
	}
	return used, err
}

// maximum carries on the query's best context and best other context; rows come in order, so that the
// lowest of equals stays.
func (j *job) maximum(c *cursor, q, c0 int, scores []float64) {
	d, m := j.out, j.in.Metric
	best, row := d.Best[q], d.BestRow[q]
	for i, x := range scores {
		if row < 0 || m.Better(x, best) {
			best, row = x, int32(c0+i)
		}
	}
	d.Best[q], d.BestRow[q] = best, row
	best, row = d.BestOther[q], d.BestOtherRow[q]
	for _, s := range c.others(q, c0, c0+len(scores)) {
		for i, x := range scores[s.from-c0 : s.to-c0] {
			if row < 0 || m.Better(x, best) {
				best, row = x, int32(s.from+i)
			}
		}
	}
	d.BestOther[q], d.BestOtherRow[q] = best, row
}

// add counts a run of negatives: the scores of query q with the contexts from c0 on.
func (j *job) add(p *part, q, c0 int, scores []float64) {
	s1, s2 := j.s1[q], j.s2[q]
	low, high := scores[0], scores[0]
	lowAt, highAt := 0, 0
	var less, lessEq int64
	kept, full := int64(0), j.kept.Load() > j.room
	for i, x := range scores {
		d := x - j.x0
		s1 += d
		s2 += float64(d * d)
		if x < low {
			low, lowAt = x, i
		}
		if x > high {
			high, highAt = x, i
		}
		a, b := j.positive.find(x)
		less, lessEq = less+a, lessEq+b
		lo, hi := j.edges.find(x) // edges are distinct: hi is lo, or lo+1 where x is an edge
		class := lo + hi
		p.class[class]++
		if class%2 == 0 && j.keep[class/2] && !full {
			p.kept[class/2] = append(p.kept[class/2], x)
			kept++
		}
	}
	if kept > 0 {
		j.kept.Add(kept)
	}
	j.s1[q], j.s2[q] = s1, s2
	p.less, p.lessEq = p.less+less, p.lessEq+lessEq
	p.lower(ref.Pair{Query: int32(q), Context: int32(c0 + lowAt), Score: low})
	p.higher(ref.Pair{Query: int32(q), Context: int32(c0 + highAt), Score: high})
}
