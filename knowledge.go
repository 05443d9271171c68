package sluice

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/store"
)

// snapshot is one consistent picture of the store: its view, the gate over it once that is asked for, and
// an index once it has been searched often. It lives until it is replaced and its last user has gone.
type snapshot struct {
	store    *store.Store
	view     *store.View
	gate     *gate.Gate
	searches int
	indexed  engine.Interface   // the engine with an index of the view, once there is one
	stop     context.CancelFunc // ends the building of an index; nil before
	users    int
	retired  bool
}

// When a picture gets an index (docs/adr, index): below so many vectors a scan takes less than a
// millisecond, and before so many searches a command that asks once would pay for what it does not use.
const (
	indexRows     = 20_000
	indexSearches = 16
)

// searcher is the engine for the picture's vectors. A picture that is searched often gets an index, built
// in the background; until then, and if that fails, all vectors are read. Answers are the same.
func (s *Sluice) searcher(p *snapshot) engine.Interface {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.indexed != nil {
		return p.indexed
	}
	p.searches++
	if p.searches < s.indexSearches || p.view.Vectors.Rows < s.indexRows || p.stop != nil || p.retired || s.closed {
		return s.engine
	}
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	p.users++ // the vectors stay mapped
	s.builders.Go(func() {
		defer s.release(p)
		defer stop()
		s.buildIndex(ctx, p)
	})
	return s.engine
}

func (s *Sluice) buildIndex(ctx context.Context, p *snapshot) {
	start := time.Now()
	x, err := s.engine.Index(ctx, p.view.Vectors, p.store.Metric(), engine.IndexOptions{})
	if err != nil {
		if ctx.Err() == nil {
			s.log.Warn("no index: every search reads all vectors", "error", err)
		}
		return
	}
	d := x.Describe()
	s.log.Info("index built", "vectors", d.Rows, "bytes", d.Bytes, "seconds", time.Since(start).Seconds())
	s.mu.Lock()
	defer s.mu.Unlock()
	p.indexed = s.engine.Indexed(x)
}

// readStore opens the store for reading, whoever made it; a store that is open for writing serves as well.
func (s *Sluice) readStore(ctx context.Context) (*store.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.readStoreLocked(ctx)
}

func (s *Sluice) readStoreLocked(ctx context.Context) (*store.Store, error) {
	switch {
	case s.closed:
		return nil, ErrClosed
	case s.writer != nil:
		return s.writer, nil
	case s.reader != nil:
		return s.reader, nil
	}
	st, err := store.Open(ctx, s.cfg.Store, store.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	s.reader = st
	return st, nil
}

// writeStore opens the store for writing; with an encoder it is made when absent. One process writes at a
// time, another one gets store.ErrLocked.
func (s *Sluice) writeStore(ctx context.Context, enc *store.Encoder) (*store.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	if s.writer == nil {
		st, err := store.Open(ctx, s.cfg.Store, store.Options{Create: enc != nil, Encoder: enc, Metric: s.cfg.Metric})
		if err != nil {
			return nil, err
		}
		s.writer = st
	}
	return s.writer, nil
}

// acquire returns the picture in use, or takes one. Every acquire needs its release.
func (s *Sluice) acquire(ctx context.Context) (*snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.snap == nil {
		st, err := s.readStoreLocked(ctx)
		if err != nil {
			return nil, err
		}
		view, err := st.View(ctx)
		if err != nil {
			return nil, err
		}
		s.snap = &snapshot{store: st, view: view}
	}
	s.snap.users++
	return s.snap, nil
}

func (s *Sluice) release(p *snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.users--
	if p.retired && p.users == 0 {
		if err := p.view.Close(); err != nil {
			s.log.Warn("closing a view of the store failed", "error", err)
		}
	}
}

// Refresh makes the next call see what other processes have written since the store was first read.
// What this Sluice writes is seen without it.
func (s *Sluice) Refresh() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dropSnapshot()
}

func (s *Sluice) dropSnapshot() error {
	p := s.snap
	s.snap = nil
	if p == nil {
		return nil
	}
	p.retired = true
	if p.stop != nil {
		p.stop()
	}
	if p.users > 0 {
		return nil // release closes it
	}
	return p.view.Close()
}

// searchable returns the picture and the encoder of its vectors, or says why nothing can be searched.
func (s *Sluice) searchable(ctx context.Context) (*snapshot, embed.Embedder, error) {
	p, err := s.acquire(ctx)
	if err != nil {
		return nil, nil, err
	}
	if p.view.Vectors.Rows == 0 {
		s.release(p)
		return nil, nil, fmt.Errorf("%w: %s; 'sluice ingest PATH' puts documents in", ErrEmptyStore, s.cfg.Store)
	}
	enc, err := s.encoder.get(ctx)
	if err == nil {
		err = sameEncoder(p.store, enc.Info())
	}
	if err != nil {
		s.release(p)
		return nil, nil, err
	}
	return p, enc, nil
}

// sameEncoder refuses to compare vectors of two encoders.
func sameEncoder(st *store.Store, info embed.Info) error {
	if made := st.Encoder(); made != storeEncoder(info) {
		return fmt.Errorf("%w: %s was made with %s (%d dimensions, %.19s), the encoder in use is %s (%d dimensions, %.19s); name the first with --encoder, or ingest into another --store",
			store.ErrEncoder, st.Dir(), made.Name, made.Dim, made.Digest, info.Name, info.Dim, info.Digest)
	}
	return nil
}

func storeEncoder(i embed.Info) store.Encoder {
	return store.Encoder{Name: i.Name, Digest: i.Digest, TokenizerDigest: i.TokenizerDigest, Dim: i.Dim}
}

func gateEncoder(i embed.Info) gate.Encoder {
	return gate.Encoder{Name: i.Name, Digest: i.Digest, TokenizerDigest: i.TokenizerDigest, Dim: i.Dim}
}
