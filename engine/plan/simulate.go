package plan

import (
	"cmp"
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Chances say how workers differ from the rate that a plan counts with.
type Chances struct {
	Seed uint64 `json:"seed"`
	// Spread is the standard deviation of the logarithm of a worker's speed, and of a block's time on it.
	Spread float64 `json:"spread"`
	// Failures of a worker in an hour of work: its block is begun anew, Restart seconds later.
	Failures float64 `json:"failures"`
	Restart  float64 `json:"restart"`
}

// DefaultChances are workers of a cloud: speeds that differ by a fifth, a failure every 50 hours, two minutes until
// another machine is there.
func DefaultChances() Chances { return Chances{Seed: 1, Spread: .2, Failures: .02, Restart: 120} }

// Run is a plan that was played.
type Run struct {
	Workers int     `json:"workers"`
	Hours   float64 `json:"hours"`
	// Tail is for how long fewer than 1 % of the blocks were left, in hours, and Slow from how many seconds on a block
	// is among the slowest 1 %.
	Tail float64 `json:"tail"`
	Slow float64 `json:"slow"`
	// Fixed is Hours where each worker is given its blocks beforehand, as runners do that never divide work anew.
	Fixed   float64 `json:"fixed"`
	Failed  int     `json:"failed"`  // blocks that were begun anew
	Bytes   float64 `json:"bytes"`   // with what was read again
	Machine float64 `json:"machine"` // hours of all workers until the end
}

// free is a worker and when it is free.
type free struct {
	at     float64
	worker int
}

type queue []free

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, k int) bool {
	return q[i].at < q[k].at || q[i].at == q[k].at && q[i].worker < q[k].worker
}
func (q queue) Swap(i, k int) { q[i], q[k] = q[k], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(free)) }
func (q *queue) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	*q = (*q)[:last]
	return x
}

const maxSimulated = 1 << 22 // blocks

// Simulate plays the plan with some workers: blocks are handed out as workers ask, pass after pass, and then the merge
// tree level after level. Equal seeds give equal runs.
func (p *Plan) Simulate(workers int, c Chances) (Run, error) {
	r := Run{Workers: workers, Bytes: p.Bytes()}
	if workers < 1 || workers > 1<<20 || p.Blocks > maxSimulated {
		return r, fmt.Errorf("%w: %d workers, %d blocks; at most 1048576 and %d are simulated", ErrInput, workers,
			p.Blocks, maxSimulated)
	}
	if !(c.Spread >= 0 && c.Spread <= 2) || !(c.Failures >= 0 && c.Failures <= 60) || !(c.Restart >= 0) ||
		math.IsInf(c.Restart, 0) {
		return r, fmt.Errorf("%w: a spread of %v, %v failures an hour, %v seconds until a restart; at most 2 and 60",
			ErrInput, c.Spread, c.Failures, c.Restart)
	}
	s := &simulation{p: p, c: c, rng: rand.New(rand.NewPCG(c.Seed, uint64(workers)))}
	s.speed = make([]float64, workers)
	for i := range s.speed {
		s.speed[i] = math.Exp(c.Spread * s.rng.NormFloat64())
	}
	seconds, fixed := 0., 0.
	for _, x := range p.Passes {
		took, beforehand := s.pass(int(p.Blocks), x.Seconds/float64(p.Blocks), x.Read/float64(p.Blocks), &r)
		seconds, fixed = seconds+took, fixed+beforehand
	}
	for left := p.Blocks; left > 1; left = ceil(left, FanIn) {
		steps := ceil(left, FanIn)
		bytes := float64(min(left, FanIn)+1) * float64(p.PartBytes)
		took, beforehand := s.pass(int(steps), bytes/p.Rates.Transfer, bytes, nil)
		seconds, fixed = seconds+took, fixed+beforehand
	}
	r.Hours, r.Fixed, r.Failed = seconds/3600, fixed/3600, s.failed
	r.Bytes += s.again
	r.Machine = r.Hours * float64(workers)
	return r, nil
}

type simulation struct {
	p      *Plan
	c      Chances
	rng    *rand.Rand
	speed  []float64
	failed int
	again  float64 // bytes
}

// pass returns how long a pass takes, and how long with blocks that are handed out beforehand. It adds to the run's
// tail, if there is one.
func (s *simulation) pass(blocks int, seconds, bytes float64, r *Run) (took, beforehand float64) {
	q, ends, times := make(queue, len(s.speed)), make([]float64, blocks), make([]float64, blocks)
	own := make([]float64, len(s.speed))
	for i := range q {
		q[i].worker = i
	}
	for i := range blocks {
		w := &q[0]
		work := s.block(seconds, s.speed[w.worker], bytes)
		own[i%len(own)] += work * s.speed[w.worker] / s.speed[i%len(own)]
		w.at += work
		ends[i], times[i] = w.at, work
		heap.Fix(&q, 0)
	}
	slices.SortFunc(ends, cmp.Compare)
	slices.SortFunc(times, cmp.Compare)
	took, beforehand = ends[blocks-1], slices.Max(own)
	if r != nil {
		at := max(0, (blocks*99+99)/100-1)
		r.Tail += (took - ends[at]) / 3600
		r.Slow = max(r.Slow, times[at])
	}
	return took, beforehand
}

// block returns how long a block takes on a worker, with the times that it is begun anew.
func (s *simulation) block(seconds, speed, bytes float64) (took float64) {
	const most = 20 // times that runners begin a block anew
	for try := 0; ; try++ {
		work := seconds / speed * math.Exp(s.c.Spread/2*s.rng.NormFloat64())
		fails := math.Inf(1)
		if s.c.Failures > 0 {
			fails = s.rng.ExpFloat64() / s.c.Failures * 3600
		}
		if fails >= work || try == most {
			return took + work
		}
		s.failed++
		s.again += bytes * fails / work
		took += fails + s.c.Restart
	}
}
