package knowledge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/embed/identity"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/rag/store"
)

// Snapshot is one consistent state of the store: its view, the gate over it once that is asked for, and
// an index once it has been searched often. It lives until it is replaced and its last user has gone.
type Snapshot struct {
	Store *store.Store
	View  *store.View

	base     *Base
	gate     *gate.Gate
	searches int
	set      *engine.Set        // the view's vectors with an index, once there is one
	stop     context.CancelFunc // ends the building of an index; nil before
	users    int
	retired  bool
}

// Snapshot returns the snapshot in use, or takes one. Every call needs a Release of what it returned.
func (b *Base) Snapshot(ctx context.Context) (*Snapshot, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.current == nil {
		st, err := b.readerLocked(ctx)
		if err != nil {
			return nil, err
		}
		view, err := st.View(ctx)
		if err != nil {
			return nil, err
		}
		b.current = &Snapshot{Store: st, View: view, base: b}
	}
	b.current.users++
	return b.current, nil
}

// Searchable returns the snapshot in use and the encoder of its vectors, or says why nothing can be searched:
// ErrEmptyStore, or store.ErrEncoder for another encoder. The snapshot needs a Release.
func (b *Base) Searchable(ctx context.Context) (*Snapshot, embed.Embedder, error) {
	s, err := b.Snapshot(ctx)
	if err != nil {
		return nil, nil, err
	}
	if s.View.Vectors.Rows == 0 {
		s.Release()
		return nil, nil, fmt.Errorf("%w: %s; 'sluice ingest PATH' puts documents in", ErrEmptyStore, b.cfg.Dir)
	}
	enc, err := b.Encoder(ctx)
	if err == nil {
		err = SameEncoder(s.Store, enc.Info().Encoder)
	}
	if err != nil {
		s.Release()
		return nil, nil, err
	}
	return s, enc, nil
}

// Release ends one use of the snapshot.
func (s *Snapshot) Release() {
	s.base.mu.Lock()
	defer s.base.mu.Unlock()
	s.users--
	if s.retired && s.users == 0 {
		if err := s.close(); err != nil {
			s.base.log.Warn("closing a view of the store failed", "error", err)
		}
	}
}

// dropSnapshot lets the next call take a new snapshot; b.mu is held.
func (b *Base) dropSnapshot() error {
	s := b.current
	b.current = nil
	if s == nil {
		return nil
	}
	s.retired = true
	if s.stop != nil {
		s.stop()
	}
	if s.users > 0 {
		return nil // Release closes it
	}
	return s.close()
}

// Chunks returns the snapshot's chunks of ids in that order, with the texts that belong to its vectors, also when they
// have been deleted or replaced since.
func (s *Snapshot) Chunks(ctx context.Context, ids []string) ([]corpus.Chunk, error) {
	return s.View.Chunks(ctx, ids)
}

// Metric is how the snapshot's vectors are compared.
func (s *Snapshot) Metric() kernels.Metric { return s.Store.Metric() }

// Vectors are the snapshot's, for the engine's searches. Those of a snapshot that is searched often become a prepared
// set with an index, built in the background; until then, and if that fails, all vectors are read. Answers are the
// same.
func (s *Snapshot) Vectors() engine.Vectors {
	b := s.base
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.set != nil {
		return s.set.Vectors()
	}
	s.searches++
	early := s.searches < b.cfg.IndexSearches || s.View.Vectors.Rows < b.cfg.IndexRows
	if early || s.stop != nil || s.retired || b.closed {
		return s.View.Vectors
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.users++ // the vectors stay mapped
	b.builders.Go(func() {
		defer s.Release()
		defer stop()
		s.prepare(ctx)
	})
	return s.View.Vectors
}

func (s *Snapshot) prepare(ctx context.Context) {
	start, log := time.Now(), s.base.log
	set, err := s.base.cfg.Engine.Prepare(ctx, s.View.Vectors, s.Metric(), engine.SetOptions{})
	if err != nil {
		if ctx.Err() == nil {
			log.Warn("no index: every search reads all vectors", "error", err)
		}
		return
	}
	d := set.Describe()
	log.Info("index built", "vectors", d.Rows, "bytes", d.Bytes, "seconds", time.Since(start).Seconds())
	s.base.mu.Lock()
	defer s.base.mu.Unlock()
	s.set = set
}

// close ends the use of the snapshot's vectors.
func (s *Snapshot) close() error {
	if s.set != nil {
		s.set.Close()
	}
	return s.View.Close()
}

// Gate returns the snapshot's gate and makes it on first use; enc is the encoder in use. A stale calibration
// is said once. A store without a calibration is ErrNotCalibrated, one whose calibration is too stale gate.ErrStale.
func (s *Snapshot) Gate(ctx context.Context, enc identity.Encoder) (*gate.Gate, error) {
	s.base.mu.Lock()
	defer s.base.mu.Unlock()
	if s.gate != nil {
		return s.gate, nil
	}
	c, err := ReadCalibration(ctx, s.Store)
	if err != nil {
		return nil, err
	}
	g, err := gate.New(c.Artifact, c.Positive, gate.Use{Encoder: enc, Metric: s.Metric(),
		TextDigests: s.View.TextDigests, StaleTolerance: s.base.cfg.StaleTolerance})
	if errors.Is(err, gate.ErrStale) {
		return nil, fmt.Errorf("%w ('sluice calibrate'; gate.stale_tolerance)", err)
	}
	if err != nil {
		return nil, err
	}
	if stale := g.Stale(); stale > 0 {
		s.base.log.Warn(fmt.Sprintf("calibration is stale by %s: so many chunks came after it; "+
			"'sluice calibrate' brings it up to date", percent(stale)))
	}
	s.gate = g
	return g, nil
}

func percent(share float64) string { return fmt.Sprintf("%.3g %%", 100*share) }

// Decide asks the gate about each query vector.
func (s *Snapshot) Decide(ctx context.Context, g *gate.Gate, queries engine.Vectors) ([]gate.Decision, error) {
	return g.Decide(ctx, s.base.cfg.Engine, s.contexts(), queries)
}

// Search returns the k best contexts of each query vector, better first.
func (s *Snapshot) Search(
	ctx context.Context, queries engine.Vectors, mode retrieve.Mode, k int,
) ([][]retrieve.Result, error) {
	return retrieve.Search(ctx, s.base.cfg.Engine, s.contexts(), queries, s.Metric(), mode, k)
}

func (s *Snapshot) contexts() retrieve.Contexts {
	return retrieve.Contexts{Vectors: s.Vectors(), IDs: s.View.IDs}
}
