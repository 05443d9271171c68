package sluice

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/llm/remote"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/decisions"
	"github.com/sluice-rag/sluice/rag/exam"
	"github.com/sluice-rag/sluice/rag/gate"
)

// Calibrate makes a calibration of the store as calibrate.Run describes: pseudo-queries → distributions → policy and
// threshold → artifact. It puts it in force unless one of another name is (calibrate.Options.Use). The default policy
// takes questions about 20 chunks: with fewer, Evidence.Grade of the result is gate.GradeLittle, and each decision has
// a Warning. Small stores may be cut into smaller chunks (ingest.Options.Chunk).
func (s *Sluice) Calibrate(ctx context.Context, o calibrate.Options) (*calibrate.Result, error) {
	return during(ctx, s, func(ctx context.Context) (*calibrate.Result, error) {
		return calibrate.Run(ctx, s.base, s.calibrated(o))
	})
}

func (s *Sluice) calibrated(o calibrate.Options) calibrate.Input {
	in := calibrate.Input{Options: o, Model: s.model.get, Templates: s.cfg.Templates}
	if s.cfg.Generator == nil { // the caller is responsible for the quality of its own model
		in.Card = func(ctx context.Context) (*exam.Card, error) { return s.card(ctx, "") }
	}
	return in
}

// Calibrations gives access to the calibrations of the store.
type Calibrations struct{ s *Sluice }

// Calibrations returns the calibrations of the store. Calibrate makes them.
func (s *Sluice) Calibrations() Calibrations { return Calibrations{s} }

// Get returns the calibration with a name ("": the one in force) and how stale it is, without opening a model. The
// error is ErrNotCalibrated if none is in force, and store.ErrNotFound if the name does not exist.
func (c Calibrations) Get(ctx context.Context, name string) (*calibrate.Result, error) {
	return during(ctx, c.s, func(ctx context.Context) (*calibrate.Result, error) {
		return calibrate.Show(ctx, c.s.base, name)
	})
}

// List returns all calibrations. A calibration that cannot be read is logged and left out.
func (c Calibrations) List(ctx context.Context) ([]*calibrate.Result, error) {
	return during(ctx, c.s, func(ctx context.Context) ([]*calibrate.Result, error) {
		return calibrate.List(ctx, c.s.base, func(name string, err error) {
			c.s.log.Warn(fmt.Sprintf("calibration %s: %v", name, err))
		})
	})
}

// Use puts the calibration with a name in force.
func (c Calibrations) Use(ctx context.Context, name string) (*calibrate.Result, error) {
	return during(ctx, c.s, func(ctx context.Context) (*calibrate.Result, error) {
		return calibrate.Use(ctx, c.s.base, name)
	})
}

// Remove removes the calibration with a name. Removing the one in force is ErrOption.
func (c Calibrations) Remove(ctx context.Context, name string) error {
	return run(ctx, c.s, func(ctx context.Context) error { return calibrate.Remove(ctx, c.s.base, name) })
}

// Repolicy derives another policy and threshold from a calibration without computing the distributions again, as
// calibrate.Repolicy describes. Of the options it reads Name, Use, Policy, Score, Second, Threshold and Draw.
func (c Calibrations) Repolicy(ctx context.Context, o calibrate.Options) (*calibrate.Result, error) {
	return during(ctx, c.s, func(ctx context.Context) (*calibrate.Result, error) {
		return calibrate.Repolicy(ctx, c.s.base, o)
	})
}

// Follow brings the calibration in force up to date with the store, as calibrate.Follow describes; the result is nil if
// it is up to date. With Options.Few, a language model on a server is ErrRemoteModel, so that new chunks are not sent
// there without a request.
func (c Calibrations) Follow(ctx context.Context, o calibrate.Options) (*calibrate.Result, error) {
	return during(ctx, c.s, func(ctx context.Context) (*calibrate.Result, error) {
		cfg := c.s.cfg
		if _, _, isURL := remote.SplitName(cfg.Model); isURL && o.Few && cfg.Generator == nil {
			return nil, fmt.Errorf("%w: new chunks are sent to %s only where that is asked for, by 'sluice calibrate' "+
				"or 'sluice ingest --calibrate'", ErrRemoteModel, cfg.Model)
		}
		return calibrate.Follow(ctx, c.s.base, c.s.calibrated(o))
	})
}

// FromLogOptions configures FromLog.
type FromLogOptions struct {
	File    string  // the log; "" is the log of Config.Decisions
	Name    string  // name of the new calibration; "" is the name of the one in force
	Use     bool    // put it in force even if another one is
	Holdout float64 // share of the questions held out from fitting; 0 is decisions.DefaultHoldout
	Seed    uint64
}

// FromLogResult is the result of FromLog.
type FromLogResult struct {
	*decisions.Fitted
	File    string `json:"log"`
	Bad     int    `json:"bad_lines"`
	Scored  int    `json:"scored"`  // questions that were scored again, by their texts
	Logged  int    `json:"logged"`  // questions with the score from the log
	Dropped int    `json:"dropped"` // questions with feedback whose score is of another kind than the calibration's

	Calibration *calibrate.Result `json:"calibration,omitempty"` // nil if nothing was changed
}

// FromLog chooses the policy and threshold by the questions of a decision log that have feedback, and makes a
// calibration with them and the evidence (NAME.log.json), unless nothing is better than what is in force. Questions are
// scored again if the log has their texts. decisions.ErrTooFew reports how many questions there are.
func (c Calibrations) FromLog(ctx context.Context, o FromLogOptions) (*FromLogResult, error) {
	return during(ctx, c.s, func(ctx context.Context) (*FromLogResult, error) {
		log, err := (*decisions.Contents)(nil), error(nil)
		if o.File != "" {
			log, err = decisions.Read(o.File)
		} else if log, err = c.s.decisions.Read(ctx); err == nil {
			o.File = c.s.decisions.File()
		}
		if err != nil {
			return nil, err
		}
		r := &FromLogResult{File: o.File, Bad: log.Bad}
		now, err := calibrate.Show(ctx, c.s.base, "")
		if err != nil {
			return nil, err
		}
		list, err := c.s.labelled(ctx, log, now.Calibration, r)
		if err != nil {
			return nil, err
		}
		if r.Fitted, err = decisions.Fit(now.Calibration, list, o.Holdout, o.Seed); err != nil || !r.Changed {
			return r, err
		}
		r.Calibration, err = calibrate.Repolicy(ctx, c.s.base, calibrate.Options{Name: o.Name, Use: o.Use,
			Policy: r.After.Policy, Score: now.Score, Threshold: r.After.Threshold})
		if err != nil {
			return nil, err
		}
		beside := filepath.Join(filepath.Dir(r.Calibration.File), r.Calibration.Name+".log.json")
		err = durable.Replace(beside, func(w io.Writer) error {
			text, err := json.MarshalIndent(r.Fitted, "", "  ")
			if err == nil {
				_, err = w.Write(append(text, '\n'))
			}
			return err
		})
		return r, errors.Join(err, c.s.base.KeepFiles(ctx))
	})
}

// labelled returns the questions of this store that have feedback, without duplicates, each with its latest feedback
// and scored by the calibration in force.
func (s *Sluice) labelled(
	ctx context.Context, log *decisions.Contents, c *gate.Calibration, r *FromLogResult,
) (list []decisions.Labelled, err error) {
	last := map[string]decisions.Entry{}
	var order []string
	for _, e := range log.Entries {
		if _, ok := e.InScope(); !ok {
			continue
		}
		key := e.Query + e.Digest
		if _, known := last[key]; !known {
			order = append(order, key)
		}
		last[key] = e
	}
	var texts []string
	var asked []decisions.Entry
	weight := 0.
	if s := c.Chosen(); s != nil {
		weight = s.Weight
	}
	for _, key := range order {
		e := last[key]
		in, _ := e.InScope()
		switch {
		case e.Query != "" && !e.Cut:
			texts, asked = append(texts, e.Query), append(asked, e)
		case e.ScoredBy == c.Score && (e.CoverWeight == weight || e.CoverWeight == 0):
			r.Logged++
			list = append(list, decisions.Labelled{ID: e.ID, Score: e.Score, InScope: in})
		default:
			r.Dropped++
		}
	}
	const group = 256
	for from := 0; from < len(texts); from += group {
		to := min(from+group, len(texts))
		found, err := s.lookup(ctx, texts[from:to], LookupOptions{calibrated: true}, &LookupTimes{})
		if err != nil {
			return nil, err
		}
		for i, f := range found {
			d := f.Decision
			if d.Reason != "" {
				r.Dropped++
				continue
			}
			in, _ := asked[from+i].InScope()
			r.Scored++
			list = append(list, decisions.Labelled{ID: asked[from+i].ID, Score: d.Score, InScope: in})
		}
	}
	return list, nil
}
