package main

import (
	"context"
	"errors"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/rag/ingest"
)

// follow updates the calibration after an ingest, as the setting ingest.calibrate says.
func (a *app) follow(ctx context.Context, s *sluice.Sluice, c config.Config, r ingest.Result) error {
	if c.Ingest.Calibrate == "true" {
		return a.followed(ctx, s, c, false)
	}
	if r.Embedded == 0 && (r.Sync == nil || r.Sync.Removed == 0) {
		return nil
	}
	shown, err := s.Calibrations().Get(ctx, "")
	switch {
	case errors.Is(err, sluice.ErrNotCalibrated), errors.Is(err, sluice.ErrEmptyStore):
		return nil
	case err != nil:
		return err
	case c.Ingest.Calibrate == "auto" && shown.Stale > 0:
		a.note("the calibration has not seen %.3g %% of the chunks: it is brought up to date with a few questions, for "+
			"two minutes at most; --calibrate=false leaves that out", 100*shown.Stale)
		err := a.followed(ctx, s, c, true)
		if err == nil || ctx.Err() != nil {
			return err
		}
		a.warn("the calibration stays as it is, and the gate decides by it: %v", err)
	case shown.Stale+shown.Gone > 0:
		a.note("the calibration has not seen %.3g %% of the chunks, and has seen %.3g %% that have gone; 'sluice "+
			"calibrate' brings it up to date, and --calibrate does so after each ingest", 100*shown.Stale,
			100*shown.Gone)
	}
	return nil
}

// followed updates the calibration, with few questions or as many as needed.
func (a *app) followed(ctx context.Context, s *sluice.Sluice, c config.Config, few bool) error {
	o := c.Calibrate
	o.Parallel, o.Few = c.Ask.Parallel, few
	var finish func()
	o.Progress, finish = a.calibrationStages()
	defer finish()
	cal, err := s.Calibrations().Follow(ctx, o)
	switch {
	case errors.Is(err, sluice.ErrEmptyStore):
		return nil // no chunks are left to calibrate
	case err != nil || cal == nil:
		return err
	}
	a.note("calibration %s: cut-off %.4f, %d of %d pairs counted, in %.1f s", cal.Name, cal.Cutoff, cal.Counted.Pairs,
		cal.Counted.Of, cal.Seconds)
	return nil
}
