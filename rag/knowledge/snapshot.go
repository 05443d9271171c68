package knowledge

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/embed/identity"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/postings"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/rag/store"
)

// Snapshot is one consistent state of the store: its view with the texts, the prepared vectors and indexes, and the
// gate, which is made on first use. It is closed after it was replaced and its last user has released it.
type Snapshot struct {
	Store *store.Store
	View  *store.View

	base     *Base
	gating   turn // of who makes the gate
	gate     atomic.Pointer[snapshotGate]
	searched atomic.Pointer[engine.Vectors] // what searches go by; nil before the first one
	pseudo   atomic.Pointer[pseudoQueries]  // pseudo-queries that are searched; nil before the first such search
	dividing turn                           // of who makes the partitions
	divided  atomic.Pointer[partitions]
	sets     []*prepared                    // that it keeps open; of whose turn it is in base.search
	words    atomic.Pointer[postings.Index] // once it was asked for
	chunks   cache[corpus.Chunk]            // that were read last
	titles   cache[string]                  // by document id; "": the document has no title
	joins    joins                          // searches under way

	// under base.mu
	users      int
	retired    bool        // no new users
	selections []selection // of the filters used last
}

// Snapshot returns the snapshot of the store as it is now: the one in use, or a new one if something has changed since,
// in whatever process. While another call takes that, the one in use serves, unless this process has written what it
// lacks. Beside Follow it is the one in use. Every call needs a Release of what it returned.
func (b *Base) Snapshot(ctx context.Context) (*Snapshot, error) {
	if b.follows.Load() > 0 {
		if s, err := b.inUse(ctx, 0); s != nil || err != nil {
			return s, err
		}
	}
	return b.latest(ctx)
}

// latest implements Snapshot if no Follow is running.
func (b *Base) latest(ctx context.Context) (*Snapshot, error) {
	st, err := b.Reader(ctx)
	if err != nil {
		return nil, err
	}
	now, err := st.Generation(ctx)
	if err != nil {
		return nil, b.unlessClosed(err)
	}
	if s, err := b.inUse(ctx, now); s != nil || err != nil {
		return s, err
	}
	if !b.loading.try() {
		if s, err := b.inUse(ctx, b.written.Load()); s != nil || err != nil {
			return s, err
		}
		if err := b.loading.take(ctx, &b.longest.loading); err != nil {
			return nil, err
		}
	}
	defer b.loading.give()
	if s, err := b.inUse(ctx, now); s != nil || err != nil { // another call has opened it in the meantime
		return s, err
	}
	view, err := st.View(ctx)
	if err != nil {
		return nil, b.unlessClosed(err)
	}
	damage := ""
	if view.Damage != nil {
		damage = view.Damage.String()
	}
	b.sayChanged(&b.said.damage, damage, "")
	s := &Snapshot{Store: st, View: view, base: b, gating: newTurn(), dividing: newTurn(), users: 1}
	if err := b.search.follow(ctx, s); err != nil {
		return nil, errors.Join(b.unlessClosed(err), s.close())
	}
	follows := b.follows.Load() > 0
	if follows {
		s.prepareAll(ctx)
		if follows, err = s.View.Hold(ctx); err != nil {
			return nil, errors.Join(b.unlessClosed(err), s.close())
		} else if follows {
			s.users++ // for hold
		}
	}
	b.mu.Lock()
	var old *Snapshot
	closed := b.closed
	if !closed {
		old = b.replace(s)
	}
	b.mu.Unlock()
	if closed {
		return nil, errors.Join(ErrClosed, s.close())
	}
	if follows {
		b.hold(s)
	}
	if err := old.closeIfUnused(); err != nil {
		b.log.Warn("closing a view of the store failed", "error", err)
	}
	return s, nil
}

// inUse returns the current snapshot if its generation is at least generation, or else nil.
func (b *Base) inUse(ctx context.Context, generation int64) (*Snapshot, error) {
	b.mu.Lock()
	s, closed := b.current, b.closed
	if s != nil {
		s.users++
	}
	b.mu.Unlock()
	switch {
	case closed:
		return nil, ErrClosed
	case s == nil:
		return nil, nil
	case s.View.Generation < generation:
		s.leave()
		return nil, nil
	}
	ok, err := s.View.Hold(ctx)
	if !ok {
		s.leave()
		return nil, b.unlessClosed(err)
	}
	return s, nil
}

// unlessClosed returns ErrClosed if err is the result of Close, or else err.
func (b *Base) unlessClosed(err error) error {
	if errors.Is(err, store.ErrClosed) && !errors.Is(err, ErrClosed) {
		return fmt.Errorf("%w (%w)", ErrClosed, err)
	}
	return err
}

// replace makes s the snapshot in use and returns the one before, for closeIfUnused; b.mu is held.
func (b *Base) replace(s *Snapshot) (old *Snapshot) {
	old, b.current = b.current, s
	if old != nil {
		old.retired = true
	}
	return old
}

// Searchable returns the snapshot in use and the encoder of its vectors, or says why nothing can be searched:
// ErrEmptyStore, or store.ErrEncoder for another encoder. The snapshot needs a Release.
func (b *Base) Searchable(ctx context.Context) (*Snapshot, embed.Embedder, error) {
	s, err := b.Snapshot(ctx)
	if err != nil {
		return nil, nil, err
	}
	if s.View.Count() == 0 {
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
	if err := s.View.Let(); err != nil {
		s.base.log.Warn("ending a transaction of the store failed", "error", err)
	}
	s.leave()
}

// leave is Release for users that do not hold the texts of the view.
func (s *Snapshot) leave() {
	b := s.base
	b.mu.Lock()
	s.users--
	b.mu.Unlock()
	if err := s.closeIfUnused(); err != nil {
		b.log.Warn("closing a view of the store failed", "error", err)
	}
}

// closeIfUnused closes a snapshot that was replaced and has no users left. The receiver may be nil.
func (s *Snapshot) closeIfUnused() error {
	if s == nil {
		return nil
	}
	s.base.mu.Lock()
	last := s.retired && s.users == 0
	if last {
		s.users = -1 // so that it is closed only once
	}
	s.base.mu.Unlock()
	if !last {
		return nil
	}
	return s.close()
}

func (s *Snapshot) close() error {
	s.base.search.release(s)
	return s.View.Close()
}

// Metric returns the metric of the snapshot's vectors.
func (s *Snapshot) Metric() kernels.Metric { return s.Store.Metric() }

// Gate returns the snapshot's gate and makes it on first use; enc is the encoder in use. While another call makes it,
// the previous gate is returned, unless this process has written since. A stale calibration is logged once. The error
// is ErrNotCalibrated if the store has no calibration, and gate.ErrStale if the calibration is too stale.
func (s *Snapshot) Gate(ctx context.Context, enc identity.Encoder) (*gate.Gate, error) {
	if g := s.gate.Load(); g != nil {
		return g.Gate, nil
	}
	b := s.base
	if err := b.check(); err != nil {
		return nil, err
	}
	if !s.gating.try() {
		if g := b.lastGate.Load(); g != nil && g.generation >= b.written.Load() && g.encoder == enc {
			return g.Gate, nil
		}
		if err := s.gating.take(ctx, &b.longest.gating); err != nil {
			return nil, err
		}
	}
	defer s.gating.give()
	if g := s.gate.Load(); g != nil {
		return g.Gate, nil
	}
	c, err := b.calibration(ctx, s.Store)
	if err != nil {
		return nil, b.unlessClosed(err)
	}
	g, err := gate.New(c.Artifact, c.Positive, gate.Use{Encoder: enc, Metric: s.Metric(),
		TextDigests: s.View.LiveDigests(), LiveIDs: s.liveIDs, StaleTolerance: b.cfg.StaleTolerance})
	if errors.Is(err, gate.ErrStale) {
		return nil, fmt.Errorf("%w ('sluice calibrate'; gate.stale_tolerance)", err)
	}
	if err != nil {
		return nil, err
	}
	if g, err = g.WithShadow(b.cfg.Shadow); err != nil {
		b.log.Warn(fmt.Sprintf("no shadow policy: %v", err))
	}
	b.sayChanged(&b.said.stale, g.Staleness(), "; 'sluice calibrate' brings it up to date")
	b.sayChanged(&b.said.weak, g.Warning(), "")
	made := &snapshotGate{g, s.View.Generation, enc}
	s.gate.Store(made)
	b.lastGate.Store(made)
	return g, nil
}

// liveIDs yields the ids of the chunks that are not deleted.
func (s *Snapshot) liveIDs(yield func(string) bool) {
	for i, id := range s.View.IDs {
		if !s.View.Deleted(i) && !yield(id) {
			return
		}
	}
}

// snapshotGate is a gate over the chunks of a generation.
type snapshotGate struct {
	*gate.Gate
	generation int64
	encoder    identity.Encoder
}

// sayChanged logs a warning unless it was the last one of its kind, which last is in Base.said.
func (b *Base) sayChanged(last *string, warning, more string) {
	b.mu.Lock()
	said := *last
	*last = warning
	b.mu.Unlock()
	if warning != "" && warning != said {
		b.log.Warn(warning + more)
	}
}

// Decide asks the gate about each query: its text and its vector.
func (s *Snapshot) Decide(
	ctx context.Context, g *gate.Gate, queries retrieve.Queries,
) (all []gate.Decision, err error) {
	err = s.asked(ctx, g, queries, func(c retrieve.Contexts, queries engine.Vectors, bias []kernels.Biases) error {
		d, err := g.Decide(ctx, s.joined(), c, queries, bias)
		all = append(all, d...)
		return err
	})
	if err == nil {
		err = s.byDomain(ctx, g, queries, all)
	}
	s.decided(g, all, err)
	return all, err
}

// byDomain decides again by the cut-offs of the queries' domains, where the gate has such.
func (s *Snapshot) byDomain(ctx context.Context, g *gate.Gate, q retrieve.Queries, all []gate.Decision) error {
	if g.Router() == "" {
		return nil
	}
	r, err := s.base.Router(s.Store)
	if err != nil || r == nil || r.Digest() != g.Router() || len(q.Texts) != len(all) {
		for i := range all {
			g.WithoutRouter(&all[i])
		}
		return nil
	}
	verdicts, err := r.Decide(ctx, s.base.cfg.Engine, q.Texts, q.Vectors)
	for i, v := range verdicts {
		g.In(&all[i], v.Labels[0].Label)
	}
	return err
}

// decided calls the observer of decisions, if one is set.
func (s *Snapshot) decided(g *gate.Gate, all []gate.Decision, err error) {
	if f := s.base.decided.Load(); f != nil && err == nil {
		(*f)(g, all)
	}
}

// Any asks the gate about each query without computing scores.
func (s *Snapshot) Any(
	ctx context.Context, g *gate.Gate, queries retrieve.Queries,
) (all []gate.Verdict, err error) {
	if g.Router() != "" { // which cut-off counts is not known before the router's verdict
		decisions, err := s.Decide(ctx, g, queries)
		for i := range decisions {
			all = append(all, decisions[i].Verdict())
		}
		return all, err
	}
	err = s.asked(ctx, g, queries, func(c retrieve.Contexts, queries engine.Vectors, bias []kernels.Biases) error {
		v, err := g.Any(ctx, s.base.cfg.Engine, c, queries, bias)
		all = append(all, v...)
		return err
	})
	return all, err
}

// maxBiases bounds the number of biases in memory. Queries are decided in groups of that size.
const maxBiases = 64 << 20

// asked calls ask for the queries, in groups if the gate also scores by words.
func (s *Snapshot) asked(ctx context.Context, g *gate.Gate, all retrieve.Queries,
	ask func(c retrieve.Contexts, queries engine.Vectors, bias []kernels.Biases) error) error {
	c, err := s.contexts(ctx)
	if err != nil {
		return err
	}
	if !g.ScoredBy().Words() {
		return ask(c, all.Vectors, nil)
	}
	texts, queries := all.Texts, all.Vectors
	if len(texts) != queries.Rows {
		return fmt.Errorf("knowledge: %w: %d texts for %d vectors", kernels.ErrShape, len(texts), queries.Rows)
	}
	x, err := s.Postings(ctx)
	if err != nil {
		return err
	}
	group := max(maxBiases/max(x.Rows(), 1), 1)
	for from := 0; from < queries.Rows; from += group {
		to := min(from+group, queries.Rows)
		bias := make([]kernels.Biases, to-from)
		for i, text := range texts[from:to] {
			if bias[i], err = g.Bias(x, text); err != nil {
				return err
			}
		}
		part := engine.Vectors{Data: queries.Data[from*queries.Dim : to*queries.Dim], Rows: to - from, Dim: queries.Dim}
		if err := ask(c, part, bias); err != nil {
			return err
		}
	}
	return nil
}

func (s *Snapshot) contexts(ctx context.Context) (retrieve.Contexts, error) {
	s.base.searched.Add(1)
	v, err := s.Vectors(ctx)
	return retrieve.Contexts{Vectors: v, IDs: s.View.IDs, Digests: s.View.Digests}, err
}
