package knowledge

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/panics"
	"github.com/sluice-rag/sluice/rag/route"
	"github.com/sluice-rag/sluice/rag/store"
)

// indexName is the file of the stored index, in the store's folder for what could be made again.
const indexName = "vectors.set"

// unclusteredShare of rows that came after the index was made are the reason to make it anew.
const unclusteredShare = .25

// search is what the searches of a base go by: plain vectors while a store is small, or a prepared set that follows the
// store. A set is made, or loaded from its file, once; later snapshots append the rows and delete those that have come
// and gone.
type search struct {
	turn  turn
	now   *prepared    // nil: plain vectors
	tried *float32     // where the vectors lie for which the stored index was looked for
	count atomic.Int64 // searches
	built atomic.Bool  // one is being built
}

// prepared is a set with what it shows.
type prepared struct {
	set     *engine.Set
	at      *float32    // where its vectors lie
	view    *store.View // for its rows and which of them are deleted; it may be closed
	indexed bool
	router  *route.Router // whose domains the blocks of the index were compared with
	mixed   bool          // a block has rows of several of them
	users   int           // snapshots, and search.now; of whose turn it is

	stored atomic.Int64               // rows of its file
	naming atomic.Pointer[store.View] // whose fingerprints name the rows of the file
}

func newPrepared(view *store.View) *prepared {
	p := &prepared{at: address(view.Vectors), view: view}
	p.naming.Store(view)
	return p
}

func (p *prepared) options(o engine.SetOptions) engine.SetOptions {
	o.Digest = func(ctx context.Context, rows int) ([32]byte, error) { return p.naming.Load().Fingerprint(ctx, rows) }
	return o
}

func address(v engine.Vectors) *float32 {
	if len(v.Data) == 0 {
		return nil
	}
	return &v.Data[0]
}

// show makes p's set show a view that is not older; ok reports whether that is possible: whether the vectors are where
// they did.
func (p *prepared) show(ctx context.Context, view *store.View) (ok bool, err error) {
	v := view.Vectors
	if p.at != address(v) || p.view.Generation > view.Generation {
		return false, nil
	}
	if p.view.Generation == view.Generation {
		return true, nil
	}
	rows := p.set.Describe().Rows
	if more := v.Rows - rows; more > 0 {
		if err := p.set.Append(ctx, engine.Vectors{Data: v.Data[rows*v.Dim:], Rows: more, Dim: v.Dim}); err != nil {
			return false, err
		}
	}
	if gone := view.DeletedSince(p.view); len(gone) > 0 {
		if err := p.set.Delete(gone...); err != nil {
			return false, err
		}
	}
	p.view = view
	return true, nil
}

// take has a snapshot search by p; whoever calls has the turn.
func (s *search) take(snap *Snapshot, p *prepared) {
	v := snap.View.Vectors
	if p != nil {
		p.users++
		snap.sets = append(snap.sets, p) // a search may still go by an earlier one
		v = p.set.Vectors()
	}
	snap.searched.Store(&v)
}

func (p *prepared) leave() {
	if p == nil {
		return
	}
	if p.users--; p.users == 0 {
		p.set.Close()
	}
}

// release ends a snapshot's use of sets.
func (s *search) release(snap *Snapshot) {
	_ = s.turn.take(context.Background(), nil) // it cannot fail
	defer s.turn.give()
	for _, p := range snap.sets {
		p.leave()
	}
	snap.sets = nil
}

// drop ends the use of the set.
func (s *search) drop() {
	_ = s.turn.take(context.Background(), nil)
	defer s.turn.give()
	s.now.leave()
	s.now = nil
}

// follow brings the set that there is up to a new snapshot. It makes none: that is left to the first search.
func (s *search) follow(ctx context.Context, snap *Snapshot) error {
	if err := s.turn.take(ctx, nil); err != nil {
		return err
	}
	defer s.turn.give()
	if s.now == nil {
		return nil
	}
	ok, err := s.now.show(ctx, snap.View)
	if err != nil {
		return err
	}
	if !ok { // the store was compacted, or its vectors were mapped anew
		s.now.leave()
		s.now = nil
		return nil
	}
	s.take(snap, s.now)
	return nil
}

// Vectors returns the snapshot's vectors for searches of the engine. Rows are numbered as in the snapshot's view, and
// deleted rows are not found. The vectors belong to a prepared set in four cases: rows are deleted, the store has a
// stored index, Follow runs (a set computes the norms of the rows only once), or the snapshot was searched often (an
// index is then built in the background). Results do not depend on this.
func (s *Snapshot) Vectors(ctx context.Context) (engine.Vectors, error) {
	b := s.base
	if err := b.check(); err != nil {
		return engine.Vectors{}, err
	}
	if s.searched.Load() == nil {
		if err := s.prepare(ctx); err != nil {
			return engine.Vectors{}, b.unlessClosed(err)
		}
	}
	if b.search.count.Add(1) >= int64(b.cfg.IndexSearches) && s.View.Vectors.Rows >= b.cfg.IndexRows {
		b.buildIndex(s)
	}
	return *s.searched.Load(), nil
}

// prepare finds out what the snapshot is searched by.
func (s *Snapshot) prepare(ctx context.Context) error {
	b := &s.base.search
	if err := b.turn.take(ctx, &s.base.longest.searching); err != nil {
		return err
	}
	defer b.turn.give()
	if s.searched.Load() != nil {
		return nil
	}
	if at := address(s.View.Vectors); b.now == nil && b.tried != at && !s.Store.Restricted() &&
		s.View.Vectors.Rows >= s.base.cfg.IndexRows {
		b.tried = at
		b.now = s.loadIndex(ctx)
	}
	if b.now != nil {
		ok, err := b.now.show(ctx, s.View)
		if err != nil {
			return err
		}
		if ok {
			b.take(s, b.now)
			return nil
		}
	}
	if s.View.Count() == s.View.Vectors.Rows && s.base.follows.Load() == 0 {
		b.take(s, nil)
		return nil
	}
	p, err := s.newSet(ctx, engine.SetOptions{NoIndex: true})
	if err != nil {
		return err
	}
	b.take(s, p)
	if b.now == nil {
		p.users++
		b.now = p
	}
	return nil
}

// newSet returns a set of the snapshot's rows, without those that are deleted.
func (s *Snapshot) newSet(ctx context.Context, o engine.SetOptions) (p *prepared, err error) {
	p = newPrepared(s.View)
	p.indexed = !o.NoIndex
	p.set, err = s.base.cfg.Engine.Prepare(ctx, s.View.Vectors, s.Metric(), p.options(o))
	if err != nil {
		return nil, err
	}
	return p, p.set.Delete(s.View.DeletedSince(nil)...)
}

func (s *Snapshot) indexFile() string {
	return filepath.Join(s.Store.Dir(), store.IndexFolder, indexName)
}

// loadIndex loads the stored index and updates it to the snapshot. It returns nil if there is no index or it does not
// fit the snapshot.
func (s *Snapshot) loadIndex(ctx context.Context) *prepared {
	log, started := s.base.log, time.Now()
	p := newPrepared(s.View)
	o := p.options(engine.SetOptions{})
	digest := o.Digest
	o.Digest = func(ctx context.Context, rows int) ([32]byte, error) { // Load asks once
		p.stored.Store(int64(rows))
		return digest(ctx, rows)
	}
	set, err := s.base.cfg.Engine.Load(ctx, s.indexFile(), s.View.Vectors, o)
	if err == nil && set.Metric() != s.Metric() {
		err = engine.ErrSetVectors
	}
	if err == nil {
		err = set.Delete(s.View.DeletedSince(nil)...)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), err != nil && ctx.Err() != nil:
		return nil
	case err != nil:
		s.base.search.count.Store(int64(s.base.cfg.IndexSearches)) // it was worth one
		log.Warn("the stored index is not used, another one is built", "error", err)
		return nil
	}
	d := set.Describe()
	log.Info("index loaded", "vectors", d.Rows, "appended", d.Rows-int(p.stored.Load()),
		"seconds", time.Since(started).Seconds())
	p.set, p.indexed, p.users = set, true, 1
	return p
}

// wanted reports whether an index should be built: no index exists yet, or too many rows were added after it was built.
func (p *prepared) wanted() bool {
	if p == nil || !p.indexed {
		return true
	}
	if p.mixed {
		return true
	}
	d := p.set.Describe()
	return float64(d.Unclustered) > unclusteredShare*float64(d.Rows)
}

// buildIndex starts to build an index of the snapshot in the background, if one is wanted and none is being built.
func (b *Base) buildIndex(s *Snapshot) {
	if b.search.built.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || s.retired || !b.search.built.CompareAndSwap(false, true) {
		return
	}
	s.users++ // the vectors stay mapped
	ctx := b.stopping
	b.builders.Go(func() {
		defer s.leave()
		defer b.search.count.Store(0) // the next look at it comes after as many searches
		defer b.search.built.Store(false)
		defer panics.Log(b.log, "the building of an index")
		if err := b.makeIndex(ctx, s); err != nil && ctx.Err() == nil {
			b.log.Warn("no index: every search reads all vectors", "error", err)
		}
		if err := b.placeWords(ctx); err != nil && ctx.Err() == nil {
			b.log.Warn("searches by vectors and words read all postings", "error", err)
		}
	})
}

// makeIndex builds an index if one is wanted, stores it, and has the snapshot in use search by it.
func (b *Base) makeIndex(ctx context.Context, s *Snapshot) error {
	started := time.Now()
	router, err := b.Router(s.Store)
	if err != nil { // its searches say so
		router = nil
	}
	wanted, err := b.wantsIndex(ctx, s, router)
	if err != nil || !wanted {
		return err
	}
	var o engine.SetOptions
	domains, err := s.partitions(ctx, router)
	switch {
	case err == nil:
		o.Parts = domains.numbers(s.View.Vectors.Rows)
	case !errors.Is(err, ErrClosed): // what the topics are read from has been closed: the index serves without them
		return err
	}
	p, err := s.newSet(ctx, o)
	if err != nil {
		return err
	}
	d := p.set.Describe()
	b.log.Info("index built", "vectors", d.Rows, "bytes", d.Bytes, "seconds", time.Since(started).Seconds())
	if err := s.storeIndex(ctx, p); err != nil && ctx.Err() == nil {
		b.log.Info("the index is not stored, the next process builds its own", "error", err)
	}
	if err := b.search.turn.take(ctx, nil); err != nil {
		p.set.Close()
		return err
	}
	b.search.now.leave()
	p.users, b.search.now = 1, p
	b.mu.Lock()
	current := b.current
	if current != nil {
		current.users++ // not closed while it gets the set
	}
	b.mu.Unlock()
	if current != nil {
		var ok bool
		if ok, err = p.show(ctx, current.View); ok {
			b.search.take(current, p)
		}
	}
	b.search.turn.give()
	if current != nil {
		current.leave()
	}
	return err
}

// wantsIndex reports whether an index should be built: no index exists yet, too many rows were added after it was
// built, or its blocks do not match the domains of the router (nil without a router).
func (b *Base) wantsIndex(ctx context.Context, s *Snapshot, router *route.Router) (bool, error) {
	if err := b.search.turn.take(ctx, nil); err != nil {
		return false, err
	}
	p, wanted, blocks := b.search.now, b.search.now.wanted(), []engine.RowBlock(nil)
	if !wanted && router != nil && p.router != router {
		blocks = p.set.Blocks()
	}
	b.search.turn.give()
	if blocks == nil {
		return wanted, nil
	}
	mixed, err := s.mixed(ctx, router, blocks)
	switch {
	case errors.Is(err, ErrClosed): // the next snapshot is asked
		return false, nil
	case err != nil:
		return false, err
	}
	if err := b.search.turn.take(ctx, nil); err != nil {
		return false, err
	}
	defer b.search.turn.give()
	p.router, p.mixed = router, mixed
	return mixed, nil
}

// storeIndex writes the files of the index and of the list of rows; p shows the snapshot.
func (s *Snapshot) storeIndex(ctx context.Context, p *prepared) error {
	if _, err := s.Store.IndexDir(); err != nil {
		return err
	}
	p.naming.Store(s.View)
	if err := p.set.Save(ctx, s.indexFile()); err != nil {
		return err
	}
	p.stored.Store(int64(s.View.Vectors.Rows))
	return s.View.SaveRows(ctx)
}

// lag is the share of rows from which on the stored index is written again: whoever loads it has to encode them.
const lag = .02

// KeepIndex brings the stored indexes up to the store: that of the words, and that of the vectors, which is built where
// a store has grown large or much has changed, and written again when rows have come. It is for who has written much.
func (b *Base) KeepIndex(ctx context.Context) error {
	s, err := b.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer s.Release()
	if err := s.keepPostings(ctx); err != nil {
		return err
	}
	rows := s.View.Vectors.Rows
	if rows < b.cfg.IndexRows || !b.search.built.CompareAndSwap(false, true) {
		return nil
	}
	defer b.search.built.Store(false)
	if err := s.prepare(ctx); err != nil {
		return err
	}
	if err := b.makeIndex(ctx, s); err != nil {
		return err
	}
	if err := b.search.turn.take(ctx, nil); err != nil {
		return err
	}
	p := b.search.now
	shows := p != nil && p.view.Generation == s.View.Generation
	if shows {
		p.users++
		s.sets = append(s.sets, p)
	}
	b.search.turn.give()
	if !shows || float64(int64(rows)-p.stored.Load()) <= lag*float64(rows) {
		return nil
	}
	return s.storeIndex(ctx, p)
}

// Compact gives back the space of deleted chunks if at least that share of the store is deleted, and makes the index of
// what is left. It returns how many rows of vectors are given back.
func (b *Base) Compact(ctx context.Context, minShare float64) (rows int64, err error) {
	st, err := b.Writer(ctx, nil)
	if err != nil {
		return 0, err
	}
	if rows, err = st.Compact(ctx, minShare); rows == 0 || err != nil {
		return 0, err
	}
	// of the rows that are gone: it would not be used
	_ = os.Remove(filepath.Join(st.Dir(), store.IndexFolder, indexName))
	return rows, errors.Join(b.Changed(nil), b.KeepIndex(ctx))
}
