package main

import (
	"context"
	"errors"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/config"
)

// follow brings the calibration up to date after an ingest, if that is asked for; else, after a sync, says that it is
// stale.
func (a *app) follow(ctx context.Context, s *sluice.Sluice, c config.Config, r sluice.IngestResult) error {
	if !c.Ingest.Calibrate {
		if r.Sync == nil || r.Embedded+r.Sync.Removed == 0 {
			return nil
		}
		shown, err := s.Calibration(ctx)
		if errors.Is(err, sluice.ErrNotCalibrated) || errors.Is(err, sluice.ErrEmptyStore) {
			return nil
		}
		if err == nil && shown.Stale+shown.Gone > 0 {
			a.note("the calibration has not seen %.3g %% of the chunks, and has seen %.3g %% that have gone; 'sluice "+
				"calibrate' brings it up to date, and --calibrate does so after each ingest", 100*shown.Stale,
				100*shown.Gone)
		}
		return err
	}
	var o sluice.CalibrateOptions
	fill(&o, c.Calibrate)
	o.Parallel = c.Generate.Parallel
	var finish func()
	o.Progress, finish = a.calibrationStages()
	defer finish()
	cal, err := s.FollowCalibration(ctx, o)
	switch {
	case errors.Is(err, sluice.ErrEmptyStore):
		return nil // there is nothing left to be calibrated
	case err != nil || cal == nil:
		return err
	}
	a.note("calibration %s: cut-off %.4f, %d of %d pairs counted, in %.1f s", cal.Name, cal.Cutoff, cal.Counted.Pairs,
		cal.Counted.Of, cal.Seconds)
	return nil
}
