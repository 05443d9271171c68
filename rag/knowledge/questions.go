package knowledge

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// pseudoQueries holds the pseudo-queries of a calibration about the contexts of a snapshot.
type pseudoQueries struct {
	of        *gate.Calibration
	questions *retrieve.Questions
}

// questions returns the pseudo-queries of the calibration in force, without those about contexts that are gone. It is
// retrieve.ErrNoQuestions if there is no calibration, or if it has not kept them.
func (s *Snapshot) questions(ctx context.Context) (*retrieve.Questions, error) {
	c, err := s.base.calibration(ctx, s.Store)
	if errors.Is(err, ErrNotCalibrated) {
		return nil, fmt.Errorf("%w: %w", retrieve.ErrNoQuestions, err)
	}
	if err != nil {
		return nil, s.base.unlessClosed(err)
	}
	if last := s.pseudo.Load(); last != nil && last.of == c.Artifact {
		return last.questions, nil
	}
	if err := SameEncoder(s.Store, c.Artifact.Encoder); err != nil {
		return nil, err
	}
	v, ids := c.Artifact.Questions()
	if v.Rows == 0 {
		return nil, fmt.Errorf("%w: the calibration %q has not kept them ('sluice calibrate --keep-questions')",
			retrieve.ErrNoQuestions, c.Name)
	}
	at := make(map[string]int, len(ids))
	for _, id := range ids {
		at[id] = -1
	}
	for row, id := range s.View.IDs {
		if _, has := at[id]; has && !s.View.Deleted(row) {
			at[id] = row
		}
	}
	q, about := &retrieve.Questions{}, []int(nil)
	for i, id := range ids {
		if at[id] >= 0 {
			q.Rows, about = append(q.Rows, at[id]), append(about, i)
		}
	}
	q.Vectors = compact(v, about)
	s.pseudo.Store(&pseudoQueries{c.Artifact, q})
	return q, nil
}
