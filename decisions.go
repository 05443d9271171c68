package sluice

import (
	"context"

	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/decisions"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/rag/store"
)

// openDecisions opens the log of Config.Decisions and logs its path; the result is nil if none is configured.
func openDecisions(cfg Config, shared *store.Shared) (*decisions.Log, error) {
	l, err := decisions.Open(cfg.Decisions, shared)
	if l != nil && err == nil {
		cfg.Logger.Warn(l.Notice())
	}
	return l, err
}

// unlogged is the key of WithoutLog.
type unlogged struct{}

// WithoutLog returns a context whose calls are not written into the decision log, for health checks for example.
func WithoutLog(ctx context.Context) context.Context { return context.WithValue(ctx, unlogged{}, true) }

// record writes a decision into the log, if there is one, and gives it the id that Feedback takes. A failure is logged
// and does not fail the question.
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

// recordAnswer records the decision of an answer's gate, if it was asked.
func (s *Sluice) recordAnswer(ctx context.Context, question string, a *answer.Answer) {
	if a == nil || a.Trace.Gate == nil {
		return
	}
	if len(a.Trace.Queries) > 0 { // the query given to the gate: a follow-up question rewritten to stand alone
		question = a.Trace.Queries[0]
	}
	s.record(ctx, question, a.Trace.Gate, a.Trace.Retrieved)
}

// Decisions gives access to the gate's decisions.
type Decisions struct{ s *Sluice }

// Decisions returns the gate's decisions.
func (s *Sluice) Decisions() Decisions { return Decisions{s} }

// Logged reports whether decisions are logged.
func (d Decisions) Logged() bool { return d.s.decisions != nil }

// Feedback writes a user's judgement of a decision into the log, by gate.Decision.LogID. up means that using the store
// or not was right and the answer good. Without a log the error is decisions.ErrOff; for an id that the log does not
// have for this store it is decisions.ErrUnknown.
func (d Decisions) Feedback(ctx context.Context, id string, up bool) error {
	return run(ctx, d.s, func(ctx context.Context) error {
		return d.s.decisions.Thumb(ctx, d.s.base.Dir(), id, up)
	})
}

// Read returns what the log has: of one in the database of a shared store, the decisions of all who write it. Without a
// log the error is decisions.ErrOff.
func (d Decisions) Read(ctx context.Context) (*decisions.Contents, error) {
	return during(ctx, d.s, func(ctx context.Context) (*decisions.Contents, error) {
		if d.s.decisions == nil || d.s.decisions.File() != decisions.Database {
			return d.s.decisions.Read(ctx)
		}
		if _, err := d.s.base.Reader(ctx); err != nil { // whether there is such a store
			return nil, err
		}
		return d.s.decisions.Read(ctx)
	})
}

// Scores returns the gate's scores that the servers of a shared store have in common; nil for a store that is a folder.
func (d Decisions) Scores() *decisions.Scores { return d.s.scores }

// Watch sets a function that is called with the gate and each of its decisions on this store; nil unsets it. f runs in
// the goroutine of the call, and must not change or keep the decisions.
func (d Decisions) Watch(f func(*gate.Gate, []gate.Decision)) { d.s.base.WatchDecisions(f) }
