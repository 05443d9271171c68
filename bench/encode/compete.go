package encode

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sluice-rag/sluice/bench/harness"
	"github.com/sluice-rag/sluice/embed"
)

// competitor is one implementation with one set of choices. run embeds batches of places in the list of texts and
// returns a time for each; result returns the vectors of all texts that it has embedded, by their places.
type competitor struct {
	Row
	key    string // of implementation and format: the same for many texts and for one
	own    *own   // nil: a peer
	run    func(ctx context.Context, batches [][]int) ([]time.Duration, error)
	result func(ctx context.Context) (map[int][]float32, error)

	rounds [][]time.Duration
	ndcg   *float64 // nil until computed
}

func (c *competitor) label() string { return fmt.Sprintf("%s %s", c.Impl, c.DType) }

// settle is how long the threads of a competitor have to go to sleep before the next one is timed.
const settle = 10 * time.Millisecond

// load lets the competitors of a load run once a round, in turn, and reports rows and ratios. A competitor that fails
// is noted and left out from then on.
func (s *session) load(ctx context.Context, l load) error {
	mode := modeBatch
	if l.single {
		mode = modeOne
	}
	rounds := l.rounds
	switch {
	case s.o.Rounds > 0:
		rounds = s.o.Rounds
	case s.o.Short:
		rounds = 2
	}
	var running []*competitor
	for _, c := range s.competitors {
		if c.Mode != mode {
			continue
		}
		c.rounds = nil
		if err := s.try(ctx, c, l, [][]int{l.checked}); err != nil { // warms up
			return err
		} else if c.run != nil {
			running = append(running, c)
		}
	}
	s.log("%s, %s: %d competitors, %d rounds", l.workload, l.shape, len(running), rounds)
	for round := range rounds {
		for _, c := range running {
			if c.run == nil {
				continue
			}
			time.Sleep(settle)
			if err := s.try(ctx, c, l, l.batches(round)); err != nil {
				return err
			}
		}
		s.log("%s: round %d of %d", l.workload, round+1, rounds)
	}
	running = slices.DeleteFunc(running, func(c *competitor) bool { return c.run == nil })
	return s.publish(ctx, l, running)
}

// try runs a competitor once. One that fails is noted and not run again; the only error is the context's.
func (s *session) try(ctx context.Context, c *competitor, l load, batches [][]int) error {
	if c.run == nil {
		return nil
	}
	times, err := c.run(ctx, batches)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		s.note("%s: %s is left out: %v", l.workload, c.label(), err)
		c.run = nil
		return nil
	}
	c.rounds = append(c.rounds, times)
	return nil
}

// batches returns the batches of a round: all texts in one, or some of the single texts, different ones in each round.
func (l load) batches(round int) [][]int {
	if !l.single {
		return [][]int{l.places}
	}
	out := make([][]int, l.perRound)
	for i := range out {
		out[i] = []int{l.places[(round*l.perRound+i)%len(l.places)]}
	}
	return out
}

// publish makes the rows and ratios of the competitors that have run.
func (s *session) publish(ctx context.Context, l load, ran []*competitor) error {
	references, err := s.reference(ctx, l.checked)
	if err != nil {
		return err
	}
	texts, tokens := 1., 0.
	var lengths []int
	for _, at := range l.places {
		lengths = append(lengths, s.texts.tokens[at])
		tokens += float64(s.texts.tokens[at])
	}
	if l.single {
		tokens /= float64(len(l.places))
	} else {
		texts = float64(len(l.places))
	}
	rows := make([]Row, 0, len(ran))
	for _, c := range ran {
		r := c.Row
		r.Workload, r.Shape = l.workload, l.shape
		c.rounds = c.rounds[1:] // the first one was to warm up
		minimum := shortest(s.limits, s.model.size, lengths, l.single, r.DType)
		if r.DType == onGPU {
			minimum = 0 // the limits are the CPU's
		}
		r.timed(c.rounds, texts, tokens, minimum)
		if r.MaxError, err = s.largestError(ctx, c, references); err != nil {
			return err
		}
		if r.NDCG, err = s.ndcgOf(ctx, c); err != nil {
			return err
		}
		rows = append(rows, r)
		s.report.Rows = append(s.report.Rows, r)
		if s.o.Row != nil {
			s.o.Row(r)
		}
	}
	for i, c := range ran {
		if c.own == nil {
			continue
		}
		for j, p := range ran {
			if !against(c, p) {
				continue
			}
			if x, ok := ratio(c.rounds, p.rounds); ok {
				x.Workload, x.DType, x.Peer = l.workload, c.DType, p.label()
				x.SameClass = asExact(rows[j].MaxError, rows[i].MaxError)
				s.report.Ratios = append(s.report.Ratios, x)
				if s.o.Ratio != nil {
					s.o.Ratio(x)
				}
			}
		}
	}
	return nil
}

// against reports whether one of Sluice's rows is compared with another: with peers, and for a GPU with the same on the
// CPU.
func against(c, p *competitor) bool {
	return p.own == nil || c.DType == onGPU && p.DType == string(embed.F32)
}

// largestError returns the largest difference of a component to the reference, nil without one.
func (s *session) largestError(ctx context.Context, c *competitor, references map[int][]float64) (*float64, error) {
	if len(references) == 0 {
		return nil, nil
	}
	rows, err := c.result(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		s.note("%s has no error: %v", c.label(), err)
		return nil, nil
	}
	worst := 0.
	for at, want := range references {
		got := rows[at]
		if len(got) != len(want) {
			s.note("%s has no error: it gives %d components, %d expected", c.label(), len(got), len(want))
			return nil, nil
		}
		for i, x := range want {
			d := math.Abs(float64(got[i]) - x)
			if math.IsNaN(d) {
				s.note("%s has no error: its vectors are not numbers", c.label())
				return nil, nil
			}
			worst = max(worst, d)
		}
	}
	worst = harness.Digits(worst)
	return &worst, nil
}

// vectors returns a competitor's vectors of texts, which it embeds now if it has not before, and not timed.
func (s *session) vectors(ctx context.Context, c *competitor, places []int) ([][]float32, error) {
	if _, err := c.run(ctx, [][]int{places}); err != nil {
		return nil, err
	}
	rows, err := c.result(ctx)
	if err != nil {
		return nil, err
	}
	out := make([][]float32, len(places))
	for i, at := range places {
		if out[i] = rows[at]; len(out[i]) != s.model.info.Dim {
			return nil, fmt.Errorf("%s gives %d components, %d expected", c.label(), len(out[i]), s.model.info.Dim)
		}
	}
	return out, nil
}

// ndcgOf returns NDCG@10 on squad16 of the implementation and format of a competitor: of its vectors of many texts.
func (s *session) ndcgOf(ctx context.Context, c *competitor) (*float64, error) {
	for _, o := range s.competitors {
		if o.key != c.key || o.Mode != modeBatch || o.run == nil {
			continue
		}
		if o.ndcg == nil {
			value, err := s.ndcg(ctx, o, s.texts.sets[squad])
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err != nil {
				s.note("%s has no NDCG: %v", c.label(), err)
				return nil, nil
			}
			o.ndcg = &value
		}
		return o.ndcg, nil
	}
	return nil, nil
}
