package sluice

import (
	"context"

	"github.com/sluice-rag/sluice/rag/knowledge"
)

// Duplicates finds the chunks that are in the store more than once, alike or nearly, as groups in the store's order; it
// needs no model. Bad options are ErrOption.
func (s *Sluice) Duplicates(ctx context.Context, o DuplicateOptions) (_ []DuplicateGroup, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave(&err)
	snap, err := s.base.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer snap.Release()
	return snap.Duplicates(ctx, o)
}

// What Duplicates takes and gives.
type (
	DuplicateOptions = knowledge.DuplicateOptions
	DuplicateGroup   = knowledge.DuplicateGroup
)
