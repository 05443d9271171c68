package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/sluice-rag/sluice/bench/harness"
	"github.com/sluice-rag/sluice/kernels"
)

// benchmark is a fixed amount of work that several competitors do.
type benchmark struct {
	workload, shape string
	pairs           float64 // of one run
	operations      float64 // of one run; a multiply-add is two
	bytes           float64 // that one run must read, or read and write
	tolerance       float64 // an error up to this is as good as none
	rounds          int
	cold            bool // no run to warm up, which would take long; one round is enough
	competitors     []*competitor
}

// competitor is one implementation with one set of choices. run does the work of one round and returns
// the times of its runs, without preparation. check is called after all rounds and returns the largest
// error of the results; its unit is the workload's.
type competitor struct {
	Row
	kind  kernels.DType // whose peak limits it
	run   func(ctx context.Context, round int) ([]time.Duration, error)
	check func(context.Context) (float64, error)
	// choice describes what Sluice's engine chose for the last run, and why; nil for peers.
	choice func() string

	times [][]time.Duration // of each round
	spent time.Duration
}

const (
	settle = 10 * time.Millisecond // between two competitors: the threads of the first one go to sleep
	// A slow competitor stops after minRounds, or later when it has used maxSpent.
	maxSpent  = 8 * time.Second
	minRounds = 2
)

// run warms the competitors up, lets each of them run once a round, and reports rows and ratios. A
// competitor that fails is noted and left out from then on. The only error is the context's.
func (s *session) run(ctx context.Context, b *benchmark) error {
	s.log("%s %s: %d competitors, %d rounds", b.workload, b.shape, len(b.competitors), b.rounds)
	leave := func(c *competitor, err error) {
		s.note("%s %s: %s left out: %v", b.workload, b.shape, c.label(), err)
	}
	running := b.competitors[:0:0]
	for _, c := range b.competitors {
		if !b.cold {
			_, err := c.run(ctx, 0)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				leave(c, err)
				continue
			}
		}
		running = append(running, c)
	}
	for round := range b.rounds {
		for i, c := range running {
			if c == nil || (round >= minRounds || b.cold && round > 0) && c.spent > maxSpent {
				continue
			}
			time.Sleep(settle)
			begin := time.Now()
			times, err := c.run(ctx, round)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				leave(c, err)
				running[i] = nil
				continue
			}
			c.times, c.spent = append(c.times, times), c.spent+time.Since(begin)
		}
		s.progress(b, round+1)
	}
	var rows []Row
	for _, c := range running {
		if c == nil || len(c.times) == 0 {
			continue
		}
		row, err := s.finish(ctx, b, c)
		if err != nil {
			leave(c, err)
			continue
		}
		rows = append(rows, row)
		s.row(row)
	}
	for _, x := range ratios(rows, b.tolerance) {
		s.ratio(x)
	}
	return nil
}

var errNotNumber = errors.New("its result is not a number or has another form")

// finish makes the row of a competitor that ran.
func (s *session) finish(ctx context.Context, b *benchmark, c *competitor) (Row, error) {
	row := c.Row
	row.Workload = b.workload
	if row.Shape == "" {
		row.Shape = b.shape
	}
	if row.Threads == 0 {
		row.Threads = s.o.Threads
	}
	var limit time.Duration
	if s.limits.Read > 0 {
		limit = s.limits.Time(b.operations, b.bytes, c.kind, row.ISA)
	}
	row.timed(c.times, b.pairs, limit)
	worst, err := c.check(ctx)
	if err != nil {
		return row, err
	}
	if math.IsNaN(worst) || math.IsInf(worst, 0) {
		return row, errNotNumber
	}
	row.MaxError = harness.Digits(worst)
	if c.choice != nil {
		row.Choice = c.choice()
	}
	return row, nil
}

// timeIt measures one call.
func timeIt(f func() error) ([]time.Duration, error) {
	begin := time.Now()
	err := f()
	return []time.Duration{time.Since(begin)}, err
}

// batches returns the round's per lists of size queries, from a list that is used again from its
// start when it ends.
func batches(list []int, size, per, round int) [][]int {
	out := make([][]int, per)
	for b := range out {
		for i := range size {
			out[b] = append(out[b], list[((round*per+b)*size+i)%len(list)])
		}
	}
	return out
}

// shape of n × m pairs of dimension d.
func shape(n, m, d int) string { return fmt.Sprintf("%dx%dx%d", n, m, d) }
