package sluice

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/decisions"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// openDecisions opens the log of Config.Decisions, nil without one, and says that there is one.
func openDecisions(cfg Config) (*decisions.Log, error) {
	l, err := decisions.Open(cfg.Decisions)
	if l != nil && err == nil {
		cfg.Logger.Warn(l.Notice())
	}
	return l, err
}

// unlogged is the key of WithoutLog.
type unlogged struct{}

// WithoutLog is a context whose calls leave no line in the decision log, such as those of a health check.
func WithoutLog(ctx context.Context) context.Context { return context.WithValue(ctx, unlogged{}, true) }

// record writes a decision into the log, if there is one, and gives it the id that Feedback takes. That it cannot is
// logged, and no reason not to answer.
func (s *Sluice) record(ctx context.Context, query string, d *gate.Decision, best []retrieve.Result) {
	if s.decisions == nil || d == nil || ctx.Value(unlogged{}) != nil {
		return
	}
	ids := make([]string, 0, len(best))
	for _, r := range best {
		ids = append(ids, r.ID)
	}
	id, err := s.decisions.Add(s.base.Dir(), query, *d, ids)
	if err != nil {
		s.log.Warn("a decision is missing in the log", "error", err)
		return
	}
	d.LogID = id
}

// recordAnswer is record for an answer's gate, if it was asked.
func (s *Sluice) recordAnswer(ctx context.Context, question string, a *Answer) {
	if a == nil || a.Trace.Gate == nil {
		return
	}
	if len(a.Trace.Queries) > 0 { // what the gate was asked: a follow-up question stands by itself there
		question = a.Trace.Queries[0]
	}
	s.record(ctx, question, a.Trace.Gate, a.Trace.Retrieved)
}

// Feedback writes what somebody says of a decision, by the id that gate.Decision.LogID has, into the log: up, that
// using the store or not was right and the answer good; or down. Without a log it is decisions.ErrOff, for an id that
// the log does not have of this store decisions.ErrUnknown.
func (s *Sluice) Feedback(ctx context.Context, id string, up bool) (err error) {
	_, leave, err := s.calls.enter(ctx)
	if err != nil {
		return err
	}
	defer leave(&err)
	return s.decisions.Thumb(s.base.Dir(), id, up)
}

// KeepsLog tells whether there is a log of decisions.
func (s *Sluice) KeepsLog() bool { return s.decisions != nil }

// FromLogOptions of CalibrateFromLog.
type FromLogOptions struct {
	File    string  // the log; "" is that of Config.Decisions
	Name    string  // of the calibration that is made; "" is that of the one in force
	Use     bool    // puts it in force also where another one is
	Holdout float64 // share of the questions that it is not fitted to; 0 is decisions.DefaultHoldout
	Seed    uint64
}

// FromLogResult is what CalibrateFromLog has found.
type FromLogResult struct {
	*decisions.Fitted
	File    string `json:"log"`
	Bad     int    `json:"bad_lines"`
	Scored  int    `json:"scored"`  // of the questions: scored anew, by their texts
	Logged  int    `json:"logged"`  // of the questions: with the score that was logged
	Dropped int    `json:"dropped"` // questions with feedback whose score is of another kind than the calibration's

	Calibration *CalibrateResult `json:"calibration,omitempty"` // nil when nothing was changed
}

// CalibrateFromLog finds the policy and threshold by the questions of a log that people have given feedback on, and
// makes a calibration of them, with the evidence beside it (NAME.log.json), unless nothing is better than what is in
// force. Questions are scored anew where the log has their texts. decisions.ErrTooFew says how many questions there
// are.
func (s *Sluice) CalibrateFromLog(ctx context.Context, o FromLogOptions) (_ *FromLogResult, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave(&err)
	if o.File == "" {
		if s.decisions == nil {
			return nil, decisions.ErrOff
		}
		o.File = s.decisions.File()
	}
	log, err := decisions.Read(o.File)
	if err != nil {
		return nil, err
	}
	r := &FromLogResult{File: o.File, Bad: log.Bad}
	now, err := calibrate.Show(ctx, s.base, "")
	if err != nil {
		return nil, err
	}
	list, err := s.labelled(ctx, log, now.Calibration, r)
	if err != nil {
		return nil, err
	}
	if r.Fitted, err = decisions.Fit(now.Calibration, list, o.Holdout, o.Seed); err != nil || !r.Changed {
		return r, err
	}
	r.Calibration, err = calibrate.Repolicy(ctx, s.base, CalibrateOptions{Name: o.Name, Use: o.Use,
		Policy: r.After.Policy, Score: now.Score, Threshold: r.After.Threshold})
	if err != nil {
		return nil, err
	}
	beside := filepath.Join(filepath.Dir(r.Calibration.File), r.Calibration.Name+".log.json")
	return r, durable.Replace(beside, func(w io.Writer) error {
		text, err := json.MarshalIndent(r.Fitted, "", "  ")
		if err == nil {
			_, err = w.Write(append(text, '\n'))
		}
		return err
	})
}

// labelled are the questions of this store that have feedback, each once with the last word about it, scored as the
// calibration in force does.
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
		found, err := s.decide(ctx, texts[from:to])
		if err != nil {
			return nil, err
		}
		for i, d := range found {
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

// gated embeds queries and has ask put them to the gate of the store as it is now.
func (s *Sluice) gated(ctx context.Context, queries []string,
	ask func(*knowledge.Snapshot, *gate.Gate, retrieve.Queries, *embed.Embeddings) error) error {
	snap, enc, err := s.base.Searchable(ctx)
	if err != nil {
		return err
	}
	defer snap.Release()
	g, err := snap.Gate(ctx, enc.Info().Encoder) // before the embedding: a stale calibration is the sooner error
	if err != nil {
		return err
	}
	e, err := s.base.Embed(ctx, queries, embed.Query)
	if err != nil {
		return err
	}
	return ask(snap, g, retrieve.Queries{Texts: queries, Vectors: knowledge.Vectors(e)}, e)
}

// decide is Gate without the log.
func (s *Sluice) decide(ctx context.Context, queries []string) (found []gate.Decision, err error) {
	err = s.gated(ctx, queries,
		func(snap *knowledge.Snapshot, g *gate.Gate, q retrieve.Queries, e *embed.Embeddings) error {
			found, err = snap.Decide(ctx, g, q)
			for i := range found {
				if why := e.Fault(i); why != nil {
					found[i].Close(why)
				}
			}
			return err
		})
	return found, err
}

// checkShadow is ErrOption for a shadow policy that does not exist.
func checkShadow(s gate.Shadow) error {
	if err := s.Check(); err != nil {
		return fmt.Errorf("%w: shadow policy: %w", ErrOption, err)
	}
	return nil
}
