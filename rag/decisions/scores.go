package decisions

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/store"
)

const (
	scoresBytes = 8 << 20     // of scores that the database keeps, some 100,000 questions
	scoresEvery = time.Second // between two looks
)

// Scores are the gate's scores of all servers of a shared store, without the questions. The database keeps the last
// ones, so that each server computes the same of them, also after a restart.
type Scores struct {
	journal *store.Journal
	inForce func() *gate.Gate

	mu    sync.Mutex
	given *float64 // address of the reference that mark belongs to
	mark  string
}

// scored are the scores of a call.
type scored struct {
	Calibration string    `json:"calibration"` // gate.Mark
	Scores      []float64 `json:"scores"`
	Open        []bool    `json:"open"`
}

// OpenScores opens the scores of a shared store. inForce returns the gate of the calibration in force, or nil
// before the first calibration.
func OpenScores(shared *store.Shared, inForce func() *gate.Gate) *Scores {
	return &Scores{journal: shared.Journal("scores", scoresBytes), inForce: inForce}
}

// markOf returns the mark of a gate, or "" for one without a reference.
func (s *Scores) markOf(g *gate.Gate) string {
	reference := g.Reference()
	if len(reference) == 0 {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.given != &reference[0] {
		s.given, s.mark = &reference[0], g.Mark()
	}
	return s.mark
}

// Add appends the scores of decisions. It never waits for the database.
func (s *Scores) Add(g *gate.Gate, all []gate.Decision) {
	line := scored{Calibration: s.markOf(g)}
	for i := range all {
		line.Scores, line.Open = append(line.Scores, all[i].Score), append(line.Open, all[i].Retrieve)
	}
	if text, err := json.Marshal(line); err == nil && line.Calibration != "" { // an error: a score is no number
		s.journal.Add(line.Calibration, text)
	}
}

// Follow calls f with the scores of the calibration in force, in the order that all servers see, until ctx ends: first
// with those that are there. g is a gate of that calibration, another one whenever another calibration is in force.
func (s *Scores) Follow(ctx context.Context, f func(g *gate.Gate, scores []float64, open []bool)) {
	var g *gate.Gate
	mark, place := "", int64(0)
	for {
		if now := s.inForce(); now != nil && s.markOf(now) != mark {
			g, mark, place = now, s.markOf(now), 0
		}
		if mark != "" {
			_ = s.journal.Read(ctx, place, func(at int64, text []byte) error { // without the database: later
				var line scored
				place = at
				if json.Unmarshal(text, &line) == nil && line.Calibration == mark &&
					len(line.Scores) == len(line.Open) {
					f(g, line.Scores, line.Open)
				}
				return nil
			})
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(scoresEvery):
		}
	}
}

// Close writes what waits for the database. Closing nil is harmless.
func (s *Scores) Close() error {
	if s == nil {
		return nil
	}
	if err := s.journal.Close(); !errors.Is(err, store.ErrAway) { // that scores are missing is not an error
		return err
	}
	return nil
}
