package knowledge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/embed/identity"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/internal/language"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/entities"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/store"
)

// The errors of this package and of the pipelines over a base.
var (
	ErrNotCalibrated = errors.New("sluice: the store is not calibrated")
	ErrEmptyStore    = errors.New("sluice: the store holds no chunks")
	ErrClosed        = errors.New("sluice: closed")
	ErrOption        = errors.New("sluice: bad option") // of a pipeline
)

// Config of New. Dir, Engine and Encoder are needed.
type Config struct {
	Dir       string        // of the store
	Shared    *store.Shared // the database that keeps it, of which Dir is a replica; nil: Dir is the store
	Engine    *engine.Engine
	Encoder   func(context.Context) (embed.Embedder, error)  // called when the encoder is needed; loads it once
	Scorer    func(context.Context) (embed.Scorer, error)    // called when a search wants a reranker; may be nil
	Extractor func(context.Context) (embed.Extractor, error) // called when a reader is needed; nil without one
	// Entails scores pairs of texts when an answer is checked. If it is nil, cosine similarities of the encoder decide.
	Entails func(ctx context.Context, premises, hypotheses []string) ([]float64, error)
	Metric  kernels.Metric // of a new store; an existing one keeps its own
	// Groups restrict the base to the documents that they may read (store.Options.Groups); nothing can be written then
	// but calibrations for these groups. nil reads everything.
	Groups []string
	// StaleTolerance is the share of live chunks that may be missing from the calibration; see gate.Use.
	StaleTolerance *float64
	Shadow         gate.Shadow // another policy that is tried beside the gate
	// A snapshot gets an index once it holds IndexRows vectors and was searched IndexSearches times. 0 means
	// DefaultIndexRows and DefaultIndexSearches.
	IndexRows, IndexSearches int
	// Multilingual returns the name of an encoder that supports a language (ISO 639-1), or "". Warnings recommend it.
	// May be nil.
	Multilingual func(language string) string
	Logger       *slog.Logger // nil is slog.Default()
}

// DefaultDir is where a store is made when nobody says where.
const DefaultDir = ".sluice"

// When a snapshot gets an index (docs/adr/0003-index.md): below so many vectors a scan takes less than a
// millisecond, and before so many searches a command that asks once would pay for what it does not use.
const (
	DefaultIndexRows     = 20_000
	DefaultIndexSearches = 16
)

// Base is a knowledge base in use. Its methods may be called from any goroutine. No lock is held while something is
// read, hashed or computed: a call that waits for another's work waits until its context ends.
type Base struct {
	cfg      Config
	log      *slog.Logger
	watcher  atomic.Pointer[func(done, total int)] // of the encoder's progress
	decided  atomic.Pointer[func(*gate.Gate, []gate.Decision)]
	builders sync.WaitGroup // of indexes, and searches for several calls

	joinedRows int          // from how many rows on searches are joined
	searched   atomic.Int64 // how often vectors were searched

	loading turn                                                       // of who takes a new snapshot
	opening turn                                                       // of who opens the store
	longest struct{ opening, loading, gating, searching atomic.Int64 } // wait of a call for another's turn, nanoseconds
	written atomic.Int64                                               // generation that calls must see
	follows atomic.Int64                                               // calls of Follow under way

	mu      sync.Mutex
	reader  *store.Store
	writer  *store.Store
	current *Snapshot
	held    *Snapshot // whose transaction Follow keeps
	web     *Base     // nil before it is asked for
	closed  bool
	said    struct{ stale, weak, damage string } // the last warnings, "" without one

	lastGate   atomic.Pointer[snapshotGate]
	calibrated atomic.Pointer[loadedCalibration]

	router atomic.Pointer[loadedRouter] // that was read last
	copies copies                       // of the vectors of partitions
	kept   kept                         // vectors of sentences

	languages *language.Detector
	finder    func() *entities.Finder // of dates, quantities and names, made when it is needed
	foreign   sync.Map                // languages of questions that have been warned of

	search   search
	words    words
	stopping context.Context // ends with Close: of builders
	stop     context.CancelFunc
}

// turn lets one caller work at a time; the others wait for it or for the end of their context.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// try takes the turn if nobody has it.
func (t turn) try() bool {
	select {
	case t <- struct{}{}:
		return true
	default:
		return false
	}
}

// take waits for the turn; it needs a give. longest, if not nil, keeps the longest wait in nanoseconds.
func (t turn) take(ctx context.Context, longest *atomic.Int64) error {
	if t.try() {
		return nil
	}
	began := time.Now()
	select {
	case t <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	for waited := int64(time.Since(began)); longest != nil; {
		if old := longest.Load(); waited <= old || longest.CompareAndSwap(old, waited) {
			break
		}
	}
	return nil
}

func (t turn) give() { <-t }

// New returns a base. Nothing is opened before it is needed.
func New(cfg Config) *Base {
	cfg.IndexRows = cmp.Or(cfg.IndexRows, DefaultIndexRows)
	cfg.IndexSearches = cmp.Or(cfg.IndexSearches, DefaultIndexSearches)
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	b := &Base{cfg: cfg, log: cfg.Logger, loading: newTurn(), opening: newTurn(), search: search{turn: newTurn()},
		words:      words{turn: newTurn()},
		joinedRows: joinedRows,
		languages:  language.New(),
		finder:     sync.OnceValue(func() *entities.Finder { return entities.New(nil) })}
	b.stopping, b.stop = context.WithCancel(cores.AsBatch(context.Background()))
	return b
}

// check is ErrClosed after Close.
func (b *Base) check() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return ErrClosed
	}
	return nil
}

// Close closes the snapshot in use and the store. Calls that run get ErrClosed at their next step, if they are not at
// their end before; what they read stays valid until they return. Closing twice is harmless.
func (b *Base) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	last, web := b.replace(nil), b.web
	b.mu.Unlock()
	b.stop()
	errs := []error{last.closeIfUnused()}
	if web != nil {
		errs = append(errs, web.Close())
	}
	b.builders.Wait()
	b.search.drop()
	b.copies.drop()
	b.kept.drop()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, st := range []*store.Store{b.reader, b.writer} {
		if st != nil {
			errs = append(errs, st.Close())
		}
	}
	return errors.Join(errs...)
}

// Searches returns how often vectors were searched since the base was made; one search may be of several queries.
func (b *Base) Searches() int64 { return b.searched.Load() }

// Dir returns the folder of the store.
func (b *Base) Dir() string { return b.cfg.Dir }

// Engine computes over the base's vectors.
func (b *Base) Engine() *engine.Engine { return b.cfg.Engine }

// Logger returns where the pipelines over the base log.
func (b *Base) Logger() *slog.Logger { return b.log }

// Reader opens the store for reading, whoever made it.
func (b *Base) Reader(ctx context.Context) (*store.Store, error) {
	return b.open(ctx, &b.reader, store.Options{ReadOnly: true, Groups: b.cfg.Groups})
}

// Writer opens the store for writing; with an encoder it is made when absent. Any number of processes may do so: they
// write in turns, a transaction each.
func (b *Base) Writer(ctx context.Context, enc *identity.Encoder) (*store.Store, error) {
	if b.cfg.Groups != nil {
		return nil, fmt.Errorf("%w: the knowledge base is read for the groups %q", store.ErrReadOnly, b.cfg.Groups)
	}
	return b.open(ctx, &b.writer, store.Options{Create: enc != nil, Encoder: enc, Metric: b.cfg.Metric})
}

func (b *Base) open(ctx context.Context, at **store.Store, o store.Options) (*store.Store, error) {
	opened := func() (*store.Store, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.closed {
			return nil, ErrClosed
		}
		return *at, nil
	}
	if st, err := opened(); st != nil || err != nil {
		return st, err
	}
	if err := b.opening.take(ctx, &b.longest.opening); err != nil {
		return nil, err
	}
	defer b.opening.give()
	if st, err := opened(); st != nil || err != nil {
		return st, err
	}
	o.Shared = b.cfg.Shared
	st, err := store.Open(ctx, b.cfg.Dir, o)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	closed := b.closed
	if !closed {
		*at = st
	}
	b.mu.Unlock()
	if closed {
		return nil, errors.Join(ErrClosed, st.Close())
	}
	return st, nil
}

// Refresh lets the next call take a new snapshot. That is not needed to see what has changed, here or in another
// process: every call looks. Beside Follow it returns when the snapshot in use is the store's state of now.
func (b *Base) Refresh() error {
	if b.follows.Load() > 0 {
		st, err := b.Reader(b.stopping)
		if err != nil {
			return err
		}
		b.wrote(b.stopping, st)
		s, err := b.latest(b.stopping)
		if err == nil {
			s.Release()
		}
		return err
	}
	b.mu.Lock()
	old := b.replace(nil)
	b.mu.Unlock()
	return old.closeIfUnused()
}

// Changed lets later calls of this process see what it has written, also while another one is taking a snapshot of
// before, and returns the writer's error.
func (b *Base) Changed(err error) error {
	b.mu.Lock()
	st := b.writer
	b.mu.Unlock()
	if st != nil {
		b.wrote(context.Background(), st)
	}
	return err
}

// wrote has later calls see the store as it is now.
func (b *Base) wrote(ctx context.Context, st *store.Store) {
	now, err := st.Generation(ctx)
	for old := b.written.Load(); err == nil && now > old && !b.written.CompareAndSwap(old, now); {
		old = b.written.Load()
	}
}

// Encoder loads the encoder when it is first needed.
func (b *Base) Encoder(ctx context.Context) (embed.Embedder, error) { return b.cfg.Encoder(ctx) }

// Embed returns the vectors of texts, in their order. Cut and repaired texts are counted in the result and logged.
func (b *Base) Embed(ctx context.Context, texts []string, role embed.Role) (*embed.Embeddings, error) {
	enc, err := b.Encoder(ctx)
	if err != nil {
		return nil, err
	}
	if role == embed.Query {
		b.watchLanguages(enc.Info(), texts)
	}
	e, err := enc.Embed(ctx, texts, role)
	if err != nil {
		return nil, err
	}
	if e.Truncated > 0 {
		b.log.Warn(fmt.Sprintf("%d of %d texts were cut at the %d tokens that %s reads",
			e.Truncated, len(texts), enc.Info().MaxTokens, enc.Info().Name))
	}
	if e.Repaired > 0 {
		b.log.Warn(fmt.Sprintf("%d of %d texts held NUL bytes or invalid UTF-8, which were replaced by U+FFFD",
			e.Repaired, len(texts)))
	}
	return e, nil
}

// Vectors returns a view of embeddings for the engine.
func Vectors(e *embed.Embeddings) engine.Vectors {
	rows := 0
	if e.Dim > 0 {
		rows = len(e.Data) / e.Dim
	}
	return engine.Vectors{Data: e.Data, Rows: rows, Dim: e.Dim}
}

// EncoderProgress is for embed.Options.Progress: it passes the encoder's progress to who watches. Calls beside
// an ingest show in its progress, too.
func (b *Base) EncoderProgress(done, total int) {
	if f := b.watcher.Load(); f != nil {
		(*f)(done, total)
	}
}

// WatchEncoder has f called with what EncoderProgress is told; nil ends that.
func (b *Base) WatchEncoder(f func(done, total int)) {
	if f == nil {
		b.watcher.Store(nil)
		return
	}
	b.watcher.Store(&f)
}

// WatchDecisions has f called with what the gate decides, from the goroutine of the call that asks; nil ends that. f
// must not change or keep the decisions. What Any finds out has no scores, and is not told.
func (b *Base) WatchDecisions(f func(*gate.Gate, []gate.Decision)) {
	if f == nil {
		b.decided.Store(nil)
		return
	}
	b.decided.Store(&f)
}

// LastGate returns the gate that calls go by, which follows the store (Follow); nil before the first call.
func (b *Base) LastGate() *gate.Gate {
	if g := b.lastGate.Load(); g != nil {
		return g.Gate
	}
	return nil
}

// SameEncoder refuses to compare vectors of two encoders: store.ErrEncoder.
func SameEncoder(st *store.Store, enc identity.Encoder) error {
	if made := st.Encoder(); !made.Same(enc) {
		return fmt.Errorf("%w: %s was made with %s (%d dimensions, %.19s), "+
			"the encoder in use is %s (%d dimensions, %.19s); name the first with --encoder, or ingest into another "+
			"--store", store.ErrEncoder, st.Dir(), made.Name, made.Dim, made.Digest, enc.Name, enc.Dim, enc.Digest)
	}
	return nil
}

// WebFolder is the folder of fetched web pages below the store's folder. It is a separate store, so that the pages do
// not count among the store's contexts (calibration, gate, weights of words, domains).
const WebFolder = "web"

// Web returns the base of the pages of the web that are kept beside this base (rag/web). It uses the same encoder, has
// no calibration, and ends with this base's Close; it is made when it is first asked for. It may hold no store yet.
func (b *Base) Web() *Base {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.web == nil {
		cfg := b.cfg
		cfg.Groups, cfg.Shared = nil, nil
		cfg.Dir = filepath.Join(b.cfg.Dir, WebFolder)
		b.web = New(cfg)
		b.web.closed = b.closed
	}
	return b.web
}
