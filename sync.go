package sluice

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-rag/sluice/llm/remote"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/store"
)

// WatchOptions of Watch.
type WatchOptions struct {
	ingest.WatchOptions
	// OnSync is called after each sync, before the next one: with what it did, and why it did not do all. May be nil.
	OnSync func(context.Context, IngestResult, error)
}

// Watch keeps the store as the folders are: it does what Ingest does with IngestOptions.Sync, at once, after each
// change, and now and then, until ctx ends, which is no error. A sync that fails is told to OnSync and tried again;
// what fails at once, such as a wrong option, is returned.
func (s *Sluice) Watch(ctx context.Context, paths []string, o IngestOptions, w WatchOptions) (err error) {
	o.Sync = true
	first := true
	return ingest.Watch(ctx, paths, o.Files, w.WatchOptions, func(ctx context.Context) error {
		r, err := s.Ingest(ctx, paths, o)
		if err != nil && ctx.Err() == nil && (first && !isPassing(err) || isAny(err, ErrOption, ErrClosed)) {
			return err
		}
		first = false
		if w.OnSync != nil {
			w.OnSync(ctx, r, err)
		}
		return ctx.Err()
	})
}

// FollowCalibration brings the calibration in force up to date with the store, as calibrate.Follow says; nil when it
// is. With CalibrateOptions.Few a language model of a server is ErrRemoteModel: nobody has asked for new chunks to be
// sent there.
func (s *Sluice) FollowCalibration(ctx context.Context, o CalibrateOptions) (_ *CalibrateResult, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave(&err)
	if _, _, isURL := remote.SplitName(s.cfg.Model); isURL && o.Few && s.cfg.Generator == nil {
		return nil, fmt.Errorf("%w: new chunks are sent to %s only where that is asked for, by 'sluice calibrate' or "+
			"'sluice ingest --calibrate'", ErrRemoteModel, s.cfg.Model)
	}
	return calibrate.Follow(ctx, s.base, s.calibrated(o))
}

// isPassing tells whether an error of a sync may be none the next time.
func isPassing(err error) bool {
	return isAny(err, ingest.ErrVanished, store.ErrLocked, store.ErrConflict, corpus.ErrNoDocument)
}

func isAny(err error, of ...error) bool {
	for _, e := range of {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
