package pipeline

import (
	"cmp"
	"context"
	"errors"

	"github.com/sluice-rag/sluice/cluster/calibrate"
	"github.com/sluice-rag/sluice/cluster/objects"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/engine/plan"
	"github.com/sluice-rag/sluice/rag/gate"
)

// CalibrateOptions say how a calibration is divided.
type CalibrateOptions struct {
	Runner string
	Rows   int   // contexts of a segment, where a base is exported
	Step   int   // questions of a block
	Exact  bool  // further passes where the first one gives intervals of quantiles
	Keep   int64 // bytes of pairs that all blocks together keep aside; 0: plan.Aside
}

// Count exports what a calibration is made of to the storage at an address, and has workers count it: it is a
// calibrate.Options.Count of package rag/calibrate.
func Count(ctx context.Context, e *engine.Engine, address string, in gate.Input, opts CalibrateOptions) (
	counts *gate.Counts, err error) {
	s, err := objects.Open(ctx, address)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	of, questions, err := calibrate.Export(ctx, s, in, opts.Rows)
	if err != nil {
		return nil, err
	}
	_, counts, err = count(ctx, s, e, address, of, questions, opts)
	return counts, err
}

// Calibrate calibrates a base that lies in the storage at an address, by questions there. It returns the artifact and
// D+, as gate.Calibrate does.
func Calibrate(ctx context.Context, e *engine.Engine, address, of, questions string, opts CalibrateOptions) (
	cal *gate.Calibration, positive []float64, err error) {
	s, err := objects.Open(ctx, address)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	c, counts, err := count(ctx, s, e, address, of, questions, opts)
	if err != nil {
		return nil, nil, err
	}
	return c.Artifact(ctx, s, counts)
}

// count runs the steps.
func count(ctx context.Context, s *objects.Store, e *engine.Engine, address, of, questions string,
	opts CalibrateOptions) (c *calibrate.Calibration, counts *gate.Counts, err error) {
	c, job, err := calibrate.Begin(ctx, s, e, of, questions)
	if err != nil {
		return nil, nil, err
	}
	counted := ""
	if c.Weighs() {
		if counted, err = Run(ctx, opts.Runner, Of{address, Words, job}); err != nil {
			return nil, nil, err
		}
	}
	if job, err = c.Pairs(ctx, s, counted, opts.Step, cmp.Or(opts.Keep, plan.Aside)); err != nil {
		return nil, nil, err
	}
	sum, err := Run(ctx, opts.Runner, Of{address, Pairs, job})
	if err != nil {
		return nil, nil, err
	}
	counts, next, err := c.Counts(ctx, s, sum, "")
	for err == nil && next != nil && opts.Exact {
		if job, err = c.Again(ctx, s, next, job); err != nil {
			break
		}
		var again string
		if again, err = Run(ctx, opts.Runner, Of{address, Pairs, job}); err == nil {
			counts, next, err = c.Counts(ctx, s, sum, again)
		}
	}
	return c, counts, err
}
