package knowledge

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-rag/sluice/internal/panics"
	"github.com/sluice-rag/sluice/rag/store"
)

// rebegin is how long Follow keeps a transaction of a store that does not change: one that lasted forever would keep
// SQLite from using the space of its log again.
const rebegin = 5 * time.Second

// Follow takes the snapshots of a store until ctx ends, for servers: it looks whether the store has changed, in
// whatever process, as often as is asked for, and makes everything that the calls before went by (gate, inverted index,
// prepared set) for the new snapshot before any call gets it. Calls then neither look nor wait; what this process has
// written they see when Refresh has returned, or a look later. A store that is not there yet is waited for.
func (b *Base) Follow(ctx context.Context, every time.Duration) {
	b.follows.Add(1)
	defer func() {
		b.follows.Add(-1)
		b.hold(nil)
	}()
	since, said := time.Now(), ""
	for {
		if time.Since(since) > rebegin {
			b.hold(nil)
			since = time.Now()
		}
		news := b.cfg.Shared.News() // before the look
		var s *Snapshot
		err := panics.Call(func() (err error) { s, err = b.latest(ctx); return err })
		switch {
		case err == nil:
			b.hold(s)
			said = ""
		case errors.Is(err, ErrClosed) || ctx.Err() != nil:
			return
		case !errors.Is(err, store.ErrNoStore) && err.Error() != said:
			said = err.Error()
			b.log.Warn("the store cannot be read, what was read before stays in use", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-news:
		case <-time.After(every):
		}
	}
}

// hold takes over a use of a snapshot, so that its transaction goes on while Follow runs, and ends the use that it had;
// nil only ends that. Without it a snapshot that has no calls would have to be taken anew after a change.
func (b *Base) hold(s *Snapshot) {
	b.mu.Lock()
	if s == nil || b.follows.Load() > 0 {
		s, b.held = b.held, s
	}
	b.mu.Unlock()
	if s != nil {
		s.Release()
	}
}

// prepareAll makes what calls have gone by before, before the snapshot is in use. What fails is left to the calls,
// which say it.
func (s *Snapshot) prepareAll(ctx context.Context) {
	b := s.base
	began := time.Now()
	errs := []error{}
	if g := b.lastGate.Load(); g != nil {
		_, err := s.Gate(ctx, g.encoder)
		errs = append(errs, err)
	}
	if b.words.turn.take(ctx, nil) == nil {
		used := b.words.now != nil
		b.words.turn.give()
		if used {
			_, err := s.Postings(ctx)
			errs = append(errs, err)
		}
	}
	if s.searched.Load() == nil {
		errs = append(errs, s.prepare(ctx))
	}
	if err := errors.Join(errs...); err != nil && ctx.Err() == nil {
		b.log.Debug("a new snapshot is not whole before its first use", "error", err)
	}
	b.log.Debug("snapshot taken", "generation", s.View.Generation, "rows", s.View.Vectors.Rows,
		"seconds", time.Since(began).Seconds())
}
