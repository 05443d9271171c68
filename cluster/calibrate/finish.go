package calibrate

import (
	"context"
	"math"

	"github.com/sluice-rag/sluice/cluster/objects"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/rag/gate"
)

// Counts turns the sum of a step Pairs into the calibration's counts. next, if it is not nil, are the brackets of a
// further pass, which finds the quantiles that are intervals yet; its sum is given as again then.
func (c *Calibration) Counts(ctx context.Context, s *objects.Store, sum, again string) (counts *gate.Counts,
	next *engine.Brackets, err error) {
	p := &Pairs{c.o}
	list, err := p.read(ctx, s, sum)
	if err != nil {
		return nil, nil, err
	}
	counts = &gate.Counts{Groups: max(c.o.manifest.Groups, 1)}
	first := list[0]
	if again != "" {
		further, job := *c.o, *c.o.Pairs
		job.Again, further.Pairs = true, &job
		of, err := (&Pairs{&further}).read(ctx, s, again)
		if err != nil {
			return nil, nil, err
		}
		first = of[0]
	}
	if counts.Pairs, next, err = c.e.FinishDistribution(ctx, first, gate.Quantiles()); err != nil {
		return nil, nil, err
	}
	j, q := c.o.Pairs, &c.o.questions
	if j.OwnerParts != nil {
		at := map[int64]int32{}
		for i, o := range c.o.Owners {
			at[o] = j.OwnerParts[i]
		}
		for _, o := range q.Owner {
			counts.LeftOut = append(counts.LeftOut, at[int64(o)])
		}
	}
	for i, m := range p.measures() {
		if m.of == ofAll {
			continue
		}
		d, _, err := c.e.FinishDistribution(ctx, list[i], nil)
		if err != nil {
			return nil, nil, err
		}
		if m.of == ofRated {
			r := gate.Rated{Weight: m.weight, Positive: d.Positive, Maximum: d.Best}
			if counts.LeftOut != nil {
				r.Other = known(d.BestOther)
			}
			counts.Rated = append(counts.Rated, r)
			continue
		}
		if n := len(counts.Rated); n > 0 {
			counts.Rated[n-1].General = d.Best
		}
		if m.weight == 0 {
			counts.General = d.Best
		}
	}
	return counts, next, nil
}

// known replaces the score of a question whose context's part has all contexts by the one that rating gives.
func known(best []float64) []float64 {
	for i, x := range best {
		if math.IsInf(x, 0) {
			best[i] = -1
		}
	}
	return best
}

// Artifact returns the calibration that the counts give, and D+.
func (c *Calibration) Artifact(ctx context.Context, s *objects.Store, counts *gate.Counts) (*gate.Calibration,
	[]float64, error) {
	in, err := c.input(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	in.Counts = counts
	return gate.Calibrate(ctx, c.e, in)
}
