package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sluice-rag/sluice/bench/harness"
	"github.com/sluice-rag/sluice/kernels"
)

// race is a fixed amount of work that entrants do in turns.
type race struct {
	workload, shape string
	pairs           float64 // of one run
	operations      float64 // of one run; a multiply-add is two
	bytes           float64 // that one run must read, or read and write
	tolerance       float64 // error up to which a result is as good as any
	rounds          int
	entrants        []*entrant
}

// entrant is one implementation with one set of choices. run does the work of one turn and returns
// the times of its runs, without preparation. fault is called after the race: the largest error of
// the results, in the workload's own sense.
type entrant struct {
	Row
	kind  kernels.DType // whose peak limits it
	run   func(ctx context.Context, turn int) ([]time.Duration, error)
	fault func(context.Context) (float64, error)

	times []time.Duration
	spent time.Duration
}

const (
	settle = 30 * time.Millisecond // between turns: the threads of the one before go to sleep
	// A slow entrant stops after its second turn or when it has used this much.
	patience   = 20 * time.Second
	leastTurns = 2
)

// run lets the entrants warm up and race, and reports rows and ratios. An entrant that fails is said
// and leaves the race; only the context ends it.
func (s *session) run(ctx context.Context, r *race) error {
	s.log("%s %s: %d entrants, %d rounds", r.workload, r.shape, len(r.entrants), r.rounds)
	alive := r.entrants[:0:0]
	for _, e := range r.entrants {
		_, err := e.run(ctx, 0)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			s.note("%s %s: %s is out: %v", r.workload, r.shape, e.label(), err)
			continue
		}
		alive = append(alive, e)
	}
	for turn := range r.rounds {
		for i, e := range alive {
			if e == nil || turn >= leastTurns && e.spent > patience {
				continue
			}
			time.Sleep(settle)
			begin := time.Now()
			times, err := e.run(ctx, turn)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				s.note("%s %s: %s is out: %v", r.workload, r.shape, e.label(), err)
				alive[i] = nil
				continue
			}
			e.times, e.spent = append(e.times, times...), e.spent+time.Since(begin)
		}
		s.progress(r, turn+1)
	}
	var rows []Row
	for _, e := range alive {
		if e == nil || len(e.times) == 0 {
			continue
		}
		row, err := s.finish(ctx, r, e)
		if err != nil {
			s.note("%s %s: %s is out: %v", r.workload, r.shape, e.label(), err)
			continue
		}
		rows = append(rows, row)
		s.row(row)
	}
	for _, x := range ratios(rows, r.tolerance) {
		s.ratio(x)
	}
	return nil
}

var errNoNumber = errors.New("its result is no number or has another form")

func (s *session) finish(ctx context.Context, r *race, e *entrant) (Row, error) {
	row := e.Row
	row.Workload = r.workload
	if row.Shape == "" {
		row.Shape = r.shape
	}
	if row.Threads == 0 {
		row.Threads = s.o.Threads
	}
	var limit time.Duration
	if s.limits.Read > 0 {
		limit = s.limits.Time(r.operations, r.bytes, e.kind, row.ISA)
	}
	row.timed(e.times, r.pairs, limit)
	fault, err := e.fault(ctx)
	if err != nil {
		return row, err
	}
	if math.IsNaN(fault) || math.IsInf(fault, 0) {
		return row, errNoNumber
	}
	row.MaxError = harness.Digits(fault)
	if n := len(e.times); n >= 100 {
		slices.Sort(e.times)
		s.note("%s %s, %s: 99 %% of %d runs took at most %.4g ms", row.Workload, row.Shape, row.label(), n, ms(e.times[n*99/100]))
	}
	return row, nil
}

// timeIt measures one call.
func timeIt(f func() error) ([]time.Duration, error) {
	begin := time.Now()
	err := f()
	return []time.Duration{time.Since(begin)}, err
}

// batches takes the turn's per lists of size questions from a list that it goes round.
func batches(list []int, size, per, turn int) [][]int {
	out := make([][]int, per)
	for b := range out {
		for i := range size {
			out[b] = append(out[b], list[((turn*per+b)*size+i)%len(list)])
		}
	}
	return out
}

// shape of n × m pairs of dimension d.
func shape(n, m, d int) string { return fmt.Sprintf("%dx%dx%d", n, m, d) }
