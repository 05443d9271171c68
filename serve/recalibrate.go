package serve

import (
	"context"
	"errors"
	"slices"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/rag/calibrate"
)

// recalibrate queues a job that updates the calibration of a base with a few questions about uploads, if necessary.
// Until then the gate uses the old calibration. No job is queued if one waits that does the same at its end or makes
// another calibration.
func (s *Server) recalibrate(ctx context.Context, b *base) {
	if s.cfg.ReadOnly || s.cfg.KeepCalibration || s.jobs.waiting(b.Name) {
		return
	}
	if c, err := b.Calibrations().Get(ctx, ""); err != nil || c.Stale == 0 {
		return // requests report the error
	}
	_, err := s.jobs.add(newJobID(), jobState{Kind: "calibration", Store: b.Name, Automatic: true},
		func(ctx context.Context, j *job) (any, error) {
			c, err := b.Calibrations().Follow(ctx, calibrate.Options{Few: true, Progress: j.progress})
			switch {
			case errors.Is(err, calibrate.ErrQuestions), errors.Is(err, sluice.ErrRemoteModel):
				s.log.Info("a calibration stays as it is", "store", b.Name, "because", err)
				return nil, nil
			case err != nil || c == nil:
				return nil, err
			}
			return calibrated(c), b.Store().Refresh()
		}, nil)
	if err != nil {
		s.log.Warn("a calibration was not brought up to date", "store", b.Name, "error", err)
	}
}

// calibrated returns the result of a job that has made a calibration.
func calibrated(c *calibrate.Result) map[string]any {
	return map[string]any{"name": c.Name, "policy": c.Policy, "cutoff": c.Cutoff, "evidence": c.Evidence,
		"seconds": c.Seconds}
}

// waiting reports whether a job of a base waits.
func (js *jobs) waiting(store string) bool {
	js.mu.Lock()
	defer js.mu.Unlock()
	return len(js.queues[store].waiting) > 0
}

// yield ends the automatic jobs of a base: their work so far is kept, and the next one continues it.
func (js *jobs) yield(store string) {
	js.mu.Lock()
	all := slices.Clone(js.order)
	js.mu.Unlock()
	for _, j := range all {
		if state, _ := j.look(); state.Automatic && state.Store == store && !state.over() {
			j.cancel(errCancelled)
			j.endQueued()
		}
	}
}
