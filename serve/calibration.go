package serve

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/knowledge"
)

// calibrationAnswer is the response of GET /v1/calibration and POST /v1/calibration/policy. A client can compute from
// it the effect of any policy and threshold without another request.
type calibrationAnswer struct {
	Store       string            `json:"store"`
	Name        string            `json:"name"`
	InForce     string            `json:"in_force"`
	Names       []string          `json:"names"` // of all calibrations of the base
	Stale       float64           `json:"stale"`
	Gone        float64           `json:"gone"`
	Staleness   string            `json:"staleness,omitempty"` // Stale and Gone in words
	Interval    string            `json:"interval,omitempty"`  // of the policy's value, in words
	Calibration *calibrate.Result `json:"calibration"`
	Effects     []gate.Effect     `json:"effects"`
}

// writeCalibration answers with a calibration of a base.
func (b *base) writeCalibration(w http.ResponseWriter, r *http.Request, c *calibrate.Result) error {
	all, err := b.Calibrations().List(r.Context())
	if err != nil {
		return err
	}
	out := calibrationAnswer{Store: b.Name, Name: c.Name, InForce: c.InForce, Stale: c.Stale, Gone: c.Gone,
		Staleness: gate.Staleness(c.Stale, c.Gone), Interval: c.IntervalText(), Calibration: c, Effects: c.Effects(),
		Names: []string{}}
	for _, one := range all {
		out.Names = append(out.Names, one.Name)
	}
	shown := *c
	shown.File = "" // the server's path is not shown to clients
	out.Calibration = &shown
	return writeJSON(w, http.StatusOK, out)
}

// showCalibration answers GET /v1/calibration?name=, by default with the calibration in force.
func (s *Server) showCalibration(w http.ResponseWriter, r *http.Request, b *base) error {
	c, err := b.Calibrations().Get(r.Context(), r.URL.Query().Get("name"))
	if err != nil {
		return err
	}
	return b.writeCalibration(w, r, c)
}

// policyRequest is the body of POST /v1/calibration/policy; missing fields keep their values.
type policyRequest struct {
	Store     string   `json:"store"`
	Name      string   `json:"name"` // of a calibration; "" is the one in force
	Policy    string   `json:"policy"`
	Score     string   `json:"score"`
	Threshold *float64 `json:"threshold" bounds:"-1000000,1000000"`
}

// changePolicy answers POST /v1/calibration/policy: another threshold from the same distributions.
func (s *Server) changePolicy(w http.ResponseWriter, r *http.Request, in *policyRequest) error {
	if err := checkRule(in.Name, in.Policy, in.Score, ""); err != nil {
		return err
	}
	b, err := s.base(r, in.Store)
	if err != nil {
		return err
	}
	if err := s.writable(); err != nil {
		return err
	}
	was, err := b.Calibrations().Get(r.Context(), in.Name)
	if err != nil {
		return err
	}
	o := calibrate.Options{Name: was.Name, Policy: in.Policy, Score: in.Score, Threshold: was.Threshold}
	if in.Threshold != nil {
		o.Threshold = *in.Threshold
	}
	c, err := b.Calibrations().Repolicy(r.Context(), o)
	if err == nil {
		err = b.Store().Refresh()
	}
	if errors.Is(err, gate.ErrPolicy) || errors.Is(err, gate.ErrThreshold) { // a valid one, but not of this calibration
		return &requestError{Status: http.StatusConflict, Code: "unfit_policy", Message: err.Error(), cause: err}
	}
	if err != nil {
		return err
	}
	return b.writeCalibration(w, r, c)
}

// checkRule refuses a name, policy, score or choice of negatives that no calibration can have.
func checkRule(name, policy, score, negatives string) error {
	if name != "" {
		if err := knowledge.CheckCalibrationName(name); err != nil {
			return err
		}
	}
	if _, err := gate.ParseNegatives(negatives, 0); err != nil {
		return err
	}
	var wrong error
	for _, m := range []kernels.Metric{kernels.Cosine, kernels.IP, kernels.L2} {
		err := gate.CheckPolicy(policy, score, m)
		if err == nil {
			return nil
		}
		wrong = cmp.Or(wrong, err)
	}
	return wrong
}

// calibrateRequest is the body of POST /v1/calibration; zero values are the defaults of 'sluice calibrate'.
type calibrateRequest struct {
	Store      string   `json:"store"`
	Name       string   `json:"name"`
	Sample     int      `json:"sample" bounds:"0,2147483647"` // passages asked about; 0: as many as needed
	PerContext int      `json:"per_context" bounds:"0,1000"`
	Policy     string   `json:"policy"`
	Score      string   `json:"score"`
	Threshold  float64  `json:"threshold" bounds:"-1000000,1000000"`
	Negatives  string   `json:"negatives"`
	Holdout    *float64 `json:"holdout" bounds:"0,0.9"` // share of the passages; .2 unless given
	Seed       uint64   `json:"seed" bounds:"0,18446744073709551615"`
}

// defaultHoldout is the default of 'sluice calibrate'.
const defaultHoldout = .2

// calibrate answers POST /v1/calibration: a job has the language model write questions and computes the distributions.
// Until it is done, the old calibration stays in force.
func (s *Server) calibrate(w http.ResponseWriter, r *http.Request, in *calibrateRequest) error {
	if err := checkRule(in.Name, in.Policy, in.Score, in.Negatives); err != nil {
		return err
	}
	b, err := s.base(r, in.Store)
	if err != nil {
		return err
	}
	if err := s.writable(); err != nil {
		return err
	}
	o := calibrate.Options{Name: in.Name, Sample: in.Sample, PerContext: in.PerContext, Policy: in.Policy,
		Score: in.Score, Threshold: in.Threshold, Negatives: in.Negatives, Holdout: defaultHoldout, Seed: in.Seed}
	if in.Holdout != nil {
		o.Holdout = *in.Holdout
	}
	j, err := s.jobs.add(newJobID(), jobState{Kind: "calibration", Store: b.Name},
		func(ctx context.Context, j *job) (any, error) {
			o.Progress = j.progress
			c, err := b.Calibrate(ctx, o)
			if err == nil {
				err = b.Store().Refresh()
			}
			if err != nil {
				return nil, err
			}
			return calibrated(c), nil
		}, nil)
	if err != nil {
		return err
	}
	return accepted(w, j)
}

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
